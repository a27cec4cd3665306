"""Streams of MessageIDs as tables: real messages in, questions as Spark jobs, answers as pictures.

    flights     real events -> a topic -> a row for each message that a consumer received
    session     a Spark session: in this machine's JVM, or where the environment says
    bookkeeper  `format("bookkeeper")`: topics and ledgers as rows, straight from the bookies
    shipping    this code for the workers of a cluster
    progress    a bar while a job runs
    streams     jobs over ids alone: order, holes, duplicates; DataFrame in, DataFrame out
    ledgers     jobs over the ledgers under a stream: rollovers and why, lost ends, copies by bookie
    publishing  jobs over batches and times: sizes, rates, how soon a message can be read
    traces      jobs over a run's events: marked ledgers, repairs, life cycles
    gaps        missing entries of a stream that runs, with a state of one place per partition
    faults      plants what a healthy stream lacks, in known numbers
    charts      the jobs' answers about messages as plotly figures
    trace_charts    and those about a run
    picture     one MessageID taken apart, as SVG

The idea: an id has four numbers, and a reader sees them in some order.  From order and numbers
alone follows much of what happened to a stream; what does not follow is in the ledgers' metadata.

Only `bookkeeper` reaches into the system; topics, producers and consumers come as arguments.

In Spark: the jobs are built-in functions and windows only, so no row leaves the JVM.
"""
