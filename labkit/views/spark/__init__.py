"""Streams of MessageIDs as tables: real messages, Spark jobs over them, and charts of the results.

    flights     real events -> a topic -> a row for each message that a consumer received
    session     a Spark session: in a JVM on this machine, or where the environment says
    worker_daemon   the process that a session's Python workers are forks of
    bookkeeper  `format("bookkeeper")`: topics and ledgers as rows, straight from the bookies
    shipping    sends labkit's code to the workers of a cluster
    streams     jobs over ids alone: order, holes, duplicates; DataFrame in, DataFrame out
    ledgers     jobs over a stream's ledgers: rollovers and their reasons, lost ends, copies
    publishing  jobs over batches and times: sizes, rates, delays until a message can be read
    traces      jobs over a run's events: marked ledgers, repairs, life cycles
    gaps        missing entries of a running stream; the state is one place for each partition
    faults      plants a known number of faults in a healthy stream
    charts      the jobs' results about messages as plotly figures
    trace_charts    the jobs' results about a run as plotly figures
    picture     one MessageID taken apart, as SVG

The idea: an id has four numbers, and a reader sees ids in some order.  Numbers and order alone show
much of what happened to a stream; the rest is in the ledgers' metadata.

Only `bookkeeper` uses the system itself; topics, producers and consumers are arguments.

In Spark: the jobs are built-in functions and windows only, so no row leaves the JVM.
"""
