"""Streams of MessageIDs as tables: real messages in, questions as Spark jobs, answers as pictures.

    flights     real events -> a topic -> a row for each message that a consumer received
    session     a Spark session: in this machine's JVM, or where the environment says
    streams     the jobs: order, holes, duplicates, rollovers, batches; DataFrame in, DataFrame out
    faults      plants what a healthy stream lacks, in known numbers
    charts      a job's answer as a plotly figure
    picture     one MessageID taken apart, as SVG

The idea: an id has four numbers, and a reader sees them in some order.  From order and numbers
alone follows much of what happened to a stream; what does not follow is in the ledgers' metadata.

Nothing here reaches into the system: topics, producers and consumers come as arguments.

In Spark: the jobs are built-in functions and windows only, so no row leaves the JVM.
"""
