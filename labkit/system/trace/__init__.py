"""The trace: a log of flat events that records what each node did and why.

Every component reports its events to the `Recorder` of its node. A `TraceLog` merges the events of
all nodes in time order, numbers them, and links those whose kind has a rule to their causes. All
views, checks and tables are computed from such a log. Programs compare only the typed columns of
events; the sentence that describes an event is meant for people.

To add a kind of event, declare it in `kinds`. To add a column, add it to `Event` and `Fields` in
`events`; the Parquet files and the stream of a live node derive their columns from `Event`. If its
type is new, these two also need to know how to store it (`parquet._ARROW_TYPES`,
`trace_stream._FROM_JSON` in `worlds/live`).

Read in this order: `events` (the columns), `kinds` (the meaning, columns, causes and sentence of
each kind), `recorder`, `log`, `handlers` (methods that receive events of certain kinds),
`bookie_state` (the state of a bookie at a moment), `cluster_state` (the state of a cluster),
`sentence` (an event as a sentence), `parquet`, and `answers` (what the calls of a simulated
workload returned).
"""
