"""`format("bookkeeper")`: a topic, or ledgers, as rows; straight from the bookies, with no broker.

    messages = spark.read.format("bookkeeper").options(zookeeper="host:port", topic="orders").load()

    options      the options of a query; every refusal names the option
    cluster      connects, and tries again when ZooKeeper cannot be reached
    directory    the ledgers of each lane, and how far they are confirmed; a lane is a partition of
                 the topic, or a ledger
    bounds       the first and the last place of each lane
    spans        cuts the entries into tasks: at segments; large parts are split, small ones joined
    entries      in a worker: entries of a span, read ahead; another replica where one fails
    rows         entry -> messages, payloads unpacked
    columns      the columns of a query; rows -> Arrow record batches (batches)
    following    a stream's progress: new entries, and how many to read; offsets are MessageIDs
    source, stream    the classes that Spark calls

Only confirmed entries are read, so later queries find them too; a ledger is never recovered, so no
writer is fenced.  The newest entry of an open ledger becomes readable when another one follows it,
or when its writer announces LastAddConfirmed without an entry (`explicitLacInterval`), as labkit's
brokers do.

Options; upper and lower case make no difference:

    zookeeper            the cluster's ZooKeeper, "host:port", or "zk+null://host:port/path/ledgers";
                         always needed
    topic                a row for each message; all partitions
    ledgers              or a row for each entry: ids and ranges, "3-7,9", "3-"; a batch query
                         needs each id of a range that has an end
    retrySeconds         how long a query tries again while it cannot reach ZooKeeper, or any bookie
                         that has an entry; then it fails; 120
    start, end           MessageIDs "ledger:entry:partition:batchIndex", both included, one for each
                         partition, with commas; or "earliest", "latest" (a stream's start); of
                         ledgers one id for all; a stream has no end
    closedOnly           true: leave open ledgers out; else they are read to LastAddConfirmed
    rowsPerBatch         a record batch ends with the entry that reaches this number of rows; 10000
    splitSize            bytes that a task reads, at most; "32m"
    password             the ledgers' password, if they have one
    maxRowsPerTrigger    the largest number of rows in a stream's batch, over all partitions; only
                         for a stream
    failOnDataLoss       false: ledgers that were deleted or trimmed are left out; by default a
                         query that names or needs one fails

With a schema that names some of the columns, only these are made, as with
`.schema("ledger long, entry long")`; without the columns that a producer encrypts, an encrypted
topic can be read without its key.  Spark applies all conditions itself, to the rows: only
`start`, `end` and `ledgers` reduce what is read.  This source accepts no conditions
(`pushFilters`), because Spark 4.3 keeps the tasks planned for one query's conditions with the
loaded DataFrame, and uses them for every other query over it.

A chunk of a large message is a row with `uuid`, `chunk_id` and `chunks`; its payload is the stored
piece.  Only all pieces together can be unpacked, and different tasks may read their ledgers: to get
the whole message, group by `uuid` and join the pieces in the order of `chunk_id`.

A DataFrame reads what was stored when it was first used; call `load()` again to see later data.
"""
