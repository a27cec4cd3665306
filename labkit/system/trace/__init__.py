"""The trace: a log of flat events that records what each node did and why.

Every component reports its events to the `Recorder` of its node.  A `TraceLog` merges the events of
all nodes in time order, numbers them, and links each event to its cause.  All views, checks and
tables are computed from such a log.  Programs compare the typed columns of events; the sentence
that describes an event is for people only.

Read `events` and `kinds` first.
"""
