"""Runs of the real system that lessons and exercises share.

    trial                   runs the learner's code on a simulated disk, with every possible crash
    bookie/                 runs of one bookie: its files, flushes, logs and garbage
    topics/                 runs of brokers: topics, cursors, retention, streams of messages
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
    uses/                   lesson 15: a write-ahead log, an offset store, a snapshot store

Read `trial` and `cluster_trial` first.
"""
