"""What happened, as flat events with causes.

Every part of the system reports what it did to its node's `Recorder`; rows of several nodes meet
in a `TraceLog`, which puts them in time order, numbers them and links each to its cause.  Every
picture, check and table is a reading of such a log: no view keeps a second model of the system.

Read in this order: `events` (the kinds and what each means), `recorder`, `log`, `fold` (the state
of a cluster at a moment), `bookie_fold` (the inside of one bookie), `sentence` (an event in words),
`export`, `parquet`, `answers` (what a simulated workload's calls returned, beside the events).
"""
