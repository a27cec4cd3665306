"""The trace: a log of flat events that records the actions of each node and their causes.

Every component reports its events to the `Recorder` of its node. A `TraceLog` merges the events of
all nodes in time order, numbers them, and links events to their causes if their kind has a rule for
this. All views, checks and tables are computed from such a log. Programs use only the typed columns
of events; the sentence that describes an event is meant for people.

To add a kind of event, declare it in `kinds`. To add a column, add it to `Event` and `Fields` in
`events`; the Parquet files and the stream of a live node derive their columns from `Event`. If the
column has a new type, also add this type to the tables that determine how columns are stored
(`parquet._ARROW_TYPES`, and `trace_stream._FROM_JSON` in `worlds/live`).

Read the modules in this order: `events` (the columns), `kinds` (the meaning, columns, causes and
sentence of each kind), `recorder`, `log`, `handlers` (methods that receive events of certain
kinds), `bookie_state` (the state of a bookie at a moment), `cluster_state` (the state of a
cluster), `sentence` (an event as a sentence), `parquet`, and `answers` (the values that the calls
of a simulated workload returned).
"""
