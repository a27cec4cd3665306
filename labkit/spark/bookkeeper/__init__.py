"""`format("bookkeeper")`: a topic, or ledgers, as rows; straight from the bookies, with no broker.

    messages = spark.read.format("bookkeeper").options(zookeeper="host:port", topic="orders").load()

    options      the options of a query; every refusal names the option
    directory    a lane is a partition of the topic, or a ledger: which ledgers, confirmed how far
    bounds       where each lane begins and ends
    spans        cut at segments, large ones into parts, small ones together -> a task each
    entries      in a worker: entries of a span, read ahead; another replica where one fails
    rows         entry -> messages, payloads unpacked (payloads)
    columns      rows -> Arrow record batches (batches)
    following    a stream's progress: what is new, how much of it to read; offsets are MessageIDs
    source, stream    the classes that Spark calls

Only confirmed entries are read, so each later query finds them, too; a ledger is never recovered,
so no writer is fenced.  The newest entry of an open ledger shows once another follows it, or when
its writer announces its LastAddConfirmed without one (`explicitLacInterval`), as labkit's brokers
do.

Options, in any case:

    zookeeper            the cluster's ZooKeeper, "host:port", or "zk+null://host:port/path/ledgers";
                         always needed
    topic                a row for each message; all partitions
    ledgers              or a row for each entry: ids and ranges, "3-7,9", "3-"; a batch query
                         needs each id of a range that has an end
    start, end           MessageIDs "ledger:entry:partition:batchIndex", both included, one for each
                         partition, with commas; or "earliest", "latest" (a stream's start); of
                         ledgers one id for all; a stream has no end
    closedOnly           true: leave open ledgers out; else they are read to LastAddConfirmed
    rowsPerBatch         rows of a record batch, at most; 10000
    splitSize            what a task reads, at most; "32m"
    password             the ledgers', if they have one
    maxRowsPerTrigger    a stream's batch has no more, shared by the partitions; only of a stream
    failOnDataLoss       false: ledgers that were deleted or trimmed are left out; by default a
                         query that names or needs one fails

A schema that names some of the columns makes only those: `.schema("ledger long, entry long")`.
Spark tests all conditions itself, on the rows: only `start`, `end` and `ledgers` reduce what is
read. This source accepts no conditions (`pushFilters`): Spark 4.3 keeps the tasks planned for the
last conditions with the loaded DataFrame, and then reads by them in every other query over it.

A chunk of a large message is a row, with `uuid`, `chunk_id` and `chunks`; its payload is the piece
that is stored.  Only the pieces together can be unpacked, and they may lie in ledgers that several
tasks read: to get the whole message, group by `uuid` and join the pieces in `chunk_id` order.

A DataFrame reads what was stored when it was first used; call `load()` again to see later data.
"""
