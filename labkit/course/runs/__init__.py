"""Runs of the real system that lessons and exercises share.

    trial, one_bookie       a bookie on a simulated disk, and the learner's code under every crash
    cluster_trial, do_step  the learner's code as a guest in the simulated world
    znodes                  what the metadata store holds at a moment
    timeline, timeline_messages   a run in the timeline; the message to lose or delay
    broken_runs             a run that broke a promise, in other pictures
    ensemble_runs, recovery_runs, repair_trial   what lessons 07 to 09 run and judge
    ledger_race             lesson 10: a bookie collects while a client creates a ledger
    topic_world, cursor_cases, retention_cases   lesson 11: topics, cursors, retention
    stream_trial, stored_batches   lessons 12 and 13: jobs over streams, and the files they store
    uses/                   lesson 15: a write-ahead log, an offset store, a store of snapshots

Read `trial` and `cluster_trial` first.
"""
