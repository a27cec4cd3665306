"""Runs of the real system that lessons and exercises share.

    trial, one_bookie       a bookie on a simulated disk, and the learner's code with every possible
                            crash
    bookie_files            the bytes of one bookie's files, and the numbers that lessons derive
                            from them
    flush_runs              when bookies flush without being told to, and what they replay
    cluster_trial, do_step  run the learner's code inside the simulated cluster
    znodes                  the contents of the metadata store at given moments
    timeline, timeline_messages   show a run in the timeline, and find the message to lose or delay
    play, game/             let you choose which message arrives next, in a play or in a game with
                            ten levels
    recorded                writes Python code that repeats a run
    open_run                opens a link to a run, in the view and at the moment that the link
                            specifies
    broken_runs             shows a run that broke a promise as text and in views
    written_entries         when entries were acknowledged and confirmed, and where a ledger ends
    tailing                 lesson 06: how long an entry takes to reach a reader
    quorum_runs             lesson 05: where entries are, and how many bookies may fail
    recovery_runs, repair_runs, repair_trial   runs and trials of lessons 08 and 09
    ledger_race, garbage_runs   lesson 10: ledgers, logs and garbage of one bookie
    topic_world, one_broker, cursor_cases, retention_cases   lesson 11: topics, cursors, retention
    stream_trial, stored_batches   lessons 12 and 13: streaming jobs, and the files that these jobs
                                   store
    recorded_stream         lesson 12: a recorded run, and what its messages and its trace reveal
    live_flights            lesson 13: a topic in a real cluster, and the queries that read it
    uses/                   lesson 15: a write-ahead log, an offset store, a snapshot store

Read `trial` and `cluster_trial` first.
"""
