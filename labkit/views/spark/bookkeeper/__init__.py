"""`format("bookkeeper")`: a Spark data source that reads topics or ledgers directly from bookies,
and writes rows to topics through a broker.

    messages = spark.read.format("bookkeeper").options(zookeeper="host:port", topic="orders").load()

    options      parses and checks the options of a query
    cluster      connects to the cluster, and retries while ZooKeeper or bookies are unreachable
    opening      opens ledgers, and reports deleted ones
    directory    looks up the ledgers of each lane (a partition of a topic, or one ledger)
    bounds       turns the options for start and end into positions in each lane
    times        finds the first entry that was published at or after a given time
    spans        divides the entries into tasks
    entries      reads the entries of a span, from another replica if one fails
    rows         unpacks entries into rows
    values       decodes payloads with the topic's schema
    columns      turns rows into Arrow columns
    batches      runs a task in a worker and yields Arrow record batches
    offsets      the offset that a stream stores in its checkpoint
    counting     counts the messages in entries, for row limits
    backlog      counts the entries that a stream has not read yet
    progress     extracts a stream's backlog from the query's progress
    following    decides how far each batch of a stream reads
    subscription keeps a stream's position as a subscription, so that retention respects it
    source, stream    the classes that Spark calls
    writing/          the classes that Spark calls to write, and the options of a write query

The source reads only confirmed entries, so every later query returns the same entries. The source
never recovers a ledger, and therefore never fences a writer. The newest entry of an open ledger
becomes readable when another entry follows it, or when the writer announces LastAddConfirmed
without an entry (`explicitLacInterval`), as labkit's brokers do.

Options for reading (not case-sensitive). Exactly one of the options `topic`, `topics`,
`topicsPattern` and `ledgers` is required:

    zookeeper            address of the cluster's ZooKeeper, "host:port" or
                         "zk+null://host:port/path/ledgers"; required
    topic                read all partitions of this topic; one row per message
    topics               read all partitions of these topics, separated by commas
    topicsPattern        read all topics of a namespace whose short names match a regular
                         expression: "orders.*" in public/default, or
                         "persistent://tenant/namespace/orders.*". A stream notices new topics
    ledgers              read these ledgers, given as ids and ranges such as "3-7,9" or "3-"; one
                         row per entry. In a batch query, all ledgers of a range such as "3-7" must
                         exist
    start, end           first and last message to read, both inclusive, as MessageIDs
                         "ledger:entry:partition:batchIndex", one per partition, separated by
                         commas; or "earliest" or "latest" ("latest" as the start is only for
                         streams). For ledgers, give a single id. A stream has no `end`
    startingTime,        read only messages published at or after the first time, and at or before
    endingTime           the second; each is given in milliseconds since 1970, or as
                         "2026-05-01T12:00:00Z"; only for topics. Entries are found by bisection, so
                         the publish times of a partition are assumed to increase. A stream has no
                         `endingTime`
    closedOnly           true: skip open ledgers; false (the default): read them up to
                         LastAddConfirmed
    rowsPerBatch         a record batch ends with the entry that reaches this number of rows;
                         default 10000
    splitSize            maximum number of bytes that a task reads; default "32m"
    minPartitions        read with at least this number of tasks, if there are enough entries;
                         default 1
    password             password of the ledgers, if they have one
    retrySeconds         how long to retry while ZooKeeper, or every bookie that stores an entry, is
                         unreachable; default 120
    maxRowsPerTrigger    maximum number of rows in a batch of a stream, over all partitions; only
                         for streams
    maxBytesPerTrigger   instead of maxRowsPerTrigger: maximum number of payload bytes, estimated
                         from the average size of each ledger's entries. Every partition reads at
                         least one entry; only for streams
    decodeValues         true: add a column `value` with the payload as JSON, decoded with the
                         schema version of its message; null if this version is not a JSON, AVRO or
                         PROTOBUF_NATIVE schema; default false
    storageColumns       false: leave out the columns last_add_confirmed, length, ensemble,
                         write_set, uuid, chunk_id and chunks; default true
    failOnDataLoss       false: skip ledgers that were deleted or trimmed; true (the default): fail
                         if the query refers to such a ledger
    predefinedSubscription
                         keep this subscription at the position of the stream, so that retention
                         does not delete what a restarted query needs; only for streams over topics
    admin.url            HTTP address of a broker, such as "http://host:8080"; required with
                         predefinedSubscription
    token                the token with which to log in to that broker

If you pass a schema with some of the columns, such as `.schema("ledger long, entry long")`, only
those columns are read. An encrypted topic can be read without its key if the schema omits the
encrypted columns. Spark evaluates all filters itself: only the options for the ledgers, the start
and the end reduce how much is read. The source does not support `pushFilters`, because Spark 4.3
caches the tasks planned for one query's filters in the loaded DataFrame, and reuses them for other
queries over that DataFrame.

Each chunk of a large message is a row with `uuid`, `chunk_id` and `chunks`, and its payload is
returned as stored. The source does not reassemble chunks, because different tasks may read them. To
get the whole message, group by `uuid` and concatenate the payloads in the order of `chunk_id`.

A DataFrame reads the data that was stored when it was first used; call `load()` again to see newer
data.

Options for writing:

    service.url          addresses of one or more brokers, "pulsar://host:port,host:port"; required
    topic                write to this topic; default: the column `topic` of each row
    token                the token with which to log in to the broker
    tlsTrustCertsFilePath
                         with "pulsar+ssl://": a file on each worker with the certificates of
                         trusted authorities; default: the public ones
    exactlyOnce          false: a stream stores each row at least once, and needs no deduplication;
                         true (the default): the broker's deduplication drops what an interrupted
                         micro-batch has already stored. Only for streams; a batch query always
                         stores each row at least once
    retrySeconds         how long to retry while brokers or bookies are unreachable; default 120

The columns are `value` (required), `key`, `event_time`, `properties` and `topic`.
"""
