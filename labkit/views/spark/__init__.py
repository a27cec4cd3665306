"""Spark tables of MessageIDs: real messages, jobs that analyse them, and charts of the results.

    flights         publishes real events to a topic and tabulates what a consumer receives
    session         starts a Spark session: local or remote, depending on the environment
    worker_daemon   the preloaded process from which a local session forks its Python workers
    bookkeeper      `format("bookkeeper")`: reads topics and ledgers from bookies; writes to topics
    shipping        sends labkit's code to the workers of a Spark cluster
    streams         jobs that need only ids: order, missing entries, duplicates
    ledgers         jobs that also need ledger metadata: rollovers, lost ledger ends, copies
    search          runs `labkit search` on Spark, with a table of all runs as the result
    publishing      jobs about batches and times: batch sizes, publish rates, latencies
    traces          jobs about a run's events: under-replicated ledgers, repairs, life cycles
    gaps            finds missing entries in a running stream
    faults          plants a known number of faults in a healthy stream
    charts          plotly figures of the jobs about messages
    trace_charts    plotly figures of the jobs about a run
    picture         an SVG that breaks one MessageID down into its parts

A MessageID consists of four numbers. These numbers, and the order in which a consumer receives the
ids, reveal much of what happened to a stream; ledger metadata reveals the rest.

Only `bookkeeper` talks to the storage system; the other modules receive topics, producers and
consumers as arguments. Each job takes a DataFrame and returns one. The jobs use only built-in
functions and windows, so no row leaves the JVM.
"""
