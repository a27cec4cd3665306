"""What a stream's MessageIDs tell: questions to a table of received messages, as Spark jobs.

A job takes a DataFrame and returns one. It reads of a message: `topic`, `partition`, `ledger`,
`entry`, `batch_index`, and `seq`, its place in the order of arrival; some jobs read a column more.
The messages of one partition of one topic are a stream. Ids of two streams have no order.

The rules behind the questions:

- A ledger belongs to one stream, and only the newest of a stream is open (M4).
- Entry ids of a ledger count up from 0 without a hole (M5).
- A full or old ledger is followed by the next one (M6).
- A batch is one entry with several messages; -1 as batch index: not sent in a batch (M3, M7).

Only built-in functions and windows: a Python function per row takes four to five times as long.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as fn

STREAM = ("topic", "partition")
ID_PARTS = ("ledger", "entry", "partition", "batch_index")

LEDGER_BITS = 23
ENTRY_BITS = 28
BATCH_BITS = 12
"""The widths of a position's parts: 63 bits in all, so that a position is never negative."""


def parse_message_ids(ids: DataFrame, column: str = "message_id") -> DataFrame:
    """Split the text `ledgerId:entryId:partition:batchIndex` into four integer columns.

    All four are null where the text is no MessageID.
    """
    parts = fn.split(column, ":")
    numbers = [fn.get(parts, fn.lit(i)).try_cast("bigint") for i in range(4)]
    complete = fn.size(parts) == 4
    for number in numbers:
        complete = complete & number.isNotNull()
    return ids.withColumns(
        {name: fn.when(complete, n) for name, n in zip(ID_PARTS, numbers, strict=True)}
    )


def with_position(messages: DataFrame) -> DataFrame:
    """Add `position`: ledger, entry and batch index packed into one bigint.

    Positions of one stream compare as its MessageIDs do, and one number is compared and sorted
    faster than three. The job fails with the id in its message where a part is null or does not
    fit: ledger ids below 2^23, entry ids below 2^28, batch indexes from -1 to 4094.
    """
    ledger, entry, slot = fn.col("ledger"), fn.col("entry"), fn.col("batch_index") + 1
    fits = (
        ledger.between(0, 2**LEDGER_BITS - 1)
        & entry.between(0, 2**ENTRY_BITS - 1)
        & slot.between(0, 2**BATCH_BITS - 1)
    )
    packed = (
        fn.shiftleft(ledger.cast("bigint"), ENTRY_BITS + BATCH_BITS)
        + fn.shiftleft(entry.cast("bigint"), BATCH_BITS)
        + slot
    )
    refusal = fn.format_string(
        f"MessageID %s:%s:%s:%s does not fit into a position: ledger id below 2^{LEDGER_BITS},"
        f" entry id below 2^{ENTRY_BITS}, batch index from -1 to {2**BATCH_BITS - 2}",
        *ID_PARTS,
    )
    return messages.withColumn("position", fn.when(fits, packed).otherwise(fn.raise_error(refusal)))


def order_violations(messages: DataFrame) -> DataFrame:
    """Messages that arrived right after a message of their stream with a greater id.

    One that was redelivered late is among them. `after_ledger`, `after_entry` and
    `after_batch_index` tell the id before.
    """
    before = fn.lag("position").over(_arrival_order())
    placed = with_position(messages).withColumn("before", before)
    return placed.where("position < before").select(
        *STREAM,
        "seq",
        "ledger",
        "entry",
        "batch_index",
        _ledger_of("before").alias("after_ledger"),
        _entry_of("before").alias("after_entry"),
        _batch_index_of("before").alias("after_batch_index"),
    )


def duplicates(messages: DataFrame) -> DataFrame:
    """Messages that arrived more than once: how often, and the `seq` of first and last arrival."""
    return (
        messages.groupBy(*STREAM, "ledger", "entry", "batch_index")
        .agg(
            fn.count("*").alias("arrivals"),
            fn.min("seq").alias("first_seq"),
            fn.max("seq").alias("last_seq"),
        )
        .where("arrivals > 1")
    )


def missing_entries(messages: DataFrame) -> DataFrame:
    """Runs of entries of which no message arrived, though a later entry of the ledger did.

    The first ledger of a stream counts from the first entry that arrived: a reader may have begun
    there. What is missing at a ledger's end leaves no hole between ids: see `missing_ends`.
    """
    same_ledger = fn.col("ledger") == _ledger_of("before")
    expected = fn.when(same_ledger, _entry_of("before") + 1).otherwise(0)
    entries = _with_predecessor(messages).withColumn("first_missing", expected)
    return entries.where("before is not null and entry > first_missing").select(
        *STREAM,
        "ledger",
        "first_missing",
        (fn.col("entry") - 1).alias("last_missing"),
        (fn.col("entry") - fn.col("first_missing")).alias("missing"),
    )


def missing_ends(messages: DataFrame, ledgers: DataFrame) -> DataFrame:
    """Ledgers of which the last entries did not arrive, though their metadata counts them.

    `ledgers` has `topic`, `partition`, `ledger` and `entry_count`, as of closed ledgers.
    """
    arrived = messages.groupBy(*STREAM, "ledger").agg((fn.max("entry") + 1).alias("arrived"))
    known = ledgers.join(arrived, [*STREAM, "ledger"], "left").fillna(0, ["arrived"])
    return known.where("arrived < entry_count").select(
        *STREAM,
        "ledger",
        fn.col("arrived").alias("first_missing"),
        (fn.col("entry_count") - 1).alias("last_missing"),
        (fn.col("entry_count") - fn.col("arrived")).alias("missing"),
    )


def rollovers(messages: DataFrame) -> DataFrame:
    """Where a stream goes on in its next ledger: the ledger it left, and how many entries that had.

    `entries` is one more than the last entry that arrived: too few if the ledger's end is missing.
    """
    return (
        _with_predecessor(messages)
        .withColumn("left_ledger", _ledger_of("before"))
        .where("left_ledger < ledger")
        .select(
            *STREAM,
            fn.col("left_ledger").alias("ledger"),
            (_entry_of("before") + 1).alias("entries"),
            fn.col("ledger").alias("next_ledger"),
        )
    )


def shared_ledgers(messages: DataFrame) -> DataFrame:
    """Ledgers that hold messages of more than one stream: none, if M4 holds."""
    streams = fn.collect_set(fn.concat_ws("-partition-", *STREAM))
    return (
        messages.groupBy("ledger")
        .agg(fn.array_sort(streams).alias("streams"))
        .where(fn.size("streams") > 1)
    )


def batch_sizes(messages: DataFrame) -> DataFrame:
    """One row per entry: `batch_size`, what its greatest batch index tells, and `arrived`.

    An entry that is no batch has size 1. `arrived` counts a message once however often it came;
    fewer than `batch_size` means that messages inside the batch are missing.
    """
    return messages.groupBy(*STREAM, "ledger", "entry").agg(
        fn.greatest(fn.max("batch_index") + 1, fn.lit(1)).alias("batch_size"),
        fn.count_distinct("batch_index").alias("arrived"),
        fn.min("seq").alias("first_seq"),
    )


def messages_per_ledger(messages: DataFrame) -> DataFrame:
    """One row per ledger: messages, entries, payload bytes, first and last time of publication."""
    return messages.groupBy(*STREAM, "ledger").agg(
        fn.count("*").alias("messages"),
        fn.count_distinct("entry").alias("entries"),
        fn.sum("payload_size").alias("payload_bytes"),
        fn.min("publish_time_ms").alias("first_publish_ms"),
        fn.max("publish_time_ms").alias("last_publish_ms"),
    )


def publish_rate(messages: DataFrame, bucket_ms: int = 100) -> DataFrame:
    """Messages and payload bytes per topic and bucket of `bucket_ms` of the producer's clock."""
    bucket = fn.floor(fn.col("publish_time_ms") / bucket_ms) * bucket_ms
    return messages.groupBy("topic", bucket.alias("bucket_start_ms")).agg(
        fn.count("*").alias("messages"),
        fn.sum("payload_size").alias("payload_bytes"),
    )


def stream_report(messages: DataFrame) -> DataFrame:
    """One row per stream with every count at once.

    Both windows partition by stream, so the messages are shuffled once and sorted twice.
    """
    neighbours = with_position(messages).withColumns(
        {
            "earlier": fn.lag("position").over(_arrival_order()),
            "before": fn.lag("position").over(_id_order("position")),
        }
    )
    new_ledger = fn.col("ledger") != _ledger_of("before")
    step = fn.col("entry") - fn.when(new_ledger, -1).otherwise(_entry_of("before"))
    return neighbours.groupBy(*STREAM).agg(
        fn.count("*").alias("messages"),
        fn.count_if(fn.col("position") < fn.col("earlier")).alias("order_violations"),
        fn.count_if(fn.col("position") == fn.col("before")).alias("duplicates"),
        fn.coalesce(fn.sum(fn.greatest(step - 1, fn.lit(0))), fn.lit(0)).alias("missing_entries"),
        fn.count_if(new_ledger).alias("rollovers"),
    )


def _arrival_order() -> WindowSpec:
    return Window.partitionBy(*STREAM).orderBy("seq")


def _id_order(position: str) -> WindowSpec:
    return Window.partitionBy(*STREAM).orderBy(position)


def _with_predecessor(messages: DataFrame) -> DataFrame:
    """One row per entry, with `before`: the position of the entry before it in its stream."""
    whole_entry = fn.lit(-1).alias("batch_index")
    entries = with_position(messages.select(*STREAM, "ledger", "entry", whole_entry).distinct())
    return entries.withColumn("before", fn.lag("position").over(_id_order("position")))


def _ledger_of(position: str) -> Column:
    return fn.shiftright(position, ENTRY_BITS + BATCH_BITS)


def _entry_of(position: str) -> Column:
    return fn.shiftright(position, BATCH_BITS).bitwiseAND((1 << ENTRY_BITS) - 1)


def _batch_index_of(position: str) -> Column:
    return (fn.col(position).bitwiseAND((1 << BATCH_BITS) - 1) - 1).cast("int")
