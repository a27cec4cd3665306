"""Spark jobs over the MessageIDs in a table of received messages.

A job takes a DataFrame and returns one. It reads the columns `topic`, `partition`, `ledger`,
`entry`, `batch_index`, and `seq`, the place in the order of arrival; some jobs read one more
column. The messages of one partition of one topic are a stream. Ids of different streams have no
order.

The rules behind the queries:

- A ledger belongs to one stream, and only the newest of a stream is open (M4).
- Entry ids of a ledger count up from 0 without a hole (M5).
- A full or old ledger is followed by the next one (M6): see `ledgers`.
- A batch is one entry with several messages; -1 as batch index: not sent in a batch (M3, M7): see
  `publishing`.

The jobs use only built-in functions and windows: a Python function per row takes four to five times
as long.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as fn

STREAM = ("topic", "partition")
ID_PARTS = ("ledger", "entry", "partition", "batch_index")
PARTS = "parts of the id"

LEDGER_BITS = 23
ENTRY_BITS = 28
BATCH_BITS = 12
"""The widths of a position's parts in bits: 63 in all, so that a position is never negative."""


def parse_message_ids(ids: DataFrame, column: str = "message_id") -> DataFrame:
    """Split the text `ledgerId:entryId:partition:batchIndex` into four integer columns.

    All four are null where the text is not a MessageID.
    """
    # Three projections: in one, Spark would split the text again for every use of a part.
    parts = ids.withColumn(PARTS, fn.split(column, ":"))
    numbers = [fn.get(PARTS, fn.lit(i)).try_cast("bigint") for i in range(4)]
    cast = parts.withColumns(dict(zip(ID_PARTS, numbers, strict=True)))
    ledger, entry, partition, batch_index = map(fn.col, ID_PARTS)
    # Null if any part is null.
    together = ledger.bitwiseOR(entry).bitwiseOR(partition).bitwiseOR(batch_index)
    complete = together.isNotNull() & (fn.size(PARTS) == 4)
    return cast.withColumns({name: fn.when(complete, fn.col(name)) for name in ID_PARTS}).drop(
        PARTS
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

    Messages that were redelivered late are among them. `after_ledger`, `after_entry` and
    `after_batch_index` are the id before it.
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
    """Runs of entries without any message that arrived, although a later entry of the ledger did.

    The first ledger of a stream counts from the first entry that arrived: a reader may have begun
    there.  Entries missing at a ledger's end leave no hole between ids: see `ledgers.missing_ends`.
    """
    same_ledger = fn.col("ledger") == fn.col("ledger_before")
    expected = fn.when(same_ledger, fn.col("entry_before") + 1).otherwise(0)
    entries = with_entry_before(messages).withColumn("first_missing", expected)
    return entries.where("ledger_before is not null and entry > first_missing").select(
        *STREAM,
        "ledger",
        "first_missing",
        (fn.col("entry") - 1).alias("last_missing"),
        (fn.col("entry") - fn.col("first_missing")).alias("missing"),
    )


def with_entry_before(messages: DataFrame) -> DataFrame:
    """One row per entry, with `ledger_before` and `entry_before`, the entry before it in its
    stream. Both are null for the first entry of a stream.
    """
    whole_entry = fn.lit(-1).alias("batch_index")
    entries = with_position(messages.select(*STREAM, "ledger", "entry", whole_entry).distinct())
    before = entries.withColumn("before", fn.lag("position").over(_id_order("position")))
    return before.withColumns(
        {"ledger_before": _ledger_of("before"), "entry_before": _entry_of("before")}
    ).drop("position", "before", "batch_index")


def stream_report(messages: DataFrame) -> DataFrame:
    """One row per stream with every count at once, and its entries by `batch_sizes`.

    All windows partition by stream, so the messages are shuffled once.  They are sorted once too,
    by arrival: then 64 slots of an entry become one row, a block, and only blocks are sorted by id.
    """
    before = fn.lag("position").over(_arrival_order())
    arrivals = with_position(messages).withColumn("before", before)
    blocks = arrivals.groupBy(*STREAM, fn.shiftright("position", 6).alias("block")).agg(
        fn.count("*").alias("messages"),
        fn.count_if(fn.col("position") < fn.col("before")).alias("order_violations"),
        # A bit for each slot: a duplicate sets its bit again, and is counted by `messages`.
        fn.bit_or(fn.expr("1L << int(position & 63)")).alias("slots"),
        fn.max("position").alias("last"),
    )
    # Blocks, not messages, are sorted by id: there are far fewer of them.
    near = blocks.withColumn("next", fn.lead("last").over(_id_order("last")))
    new_ledger = _ledger_of("next") != _ledger_of("last")
    step = _entry_of("next") - fn.when(new_ledger, -1).otherwise(_entry_of("last"))
    is_last = ~fn.shiftright("last", BATCH_BITS).eqNullSafe(fn.shiftright("next", BATCH_BITS))
    size = fn.when(is_last, fn.greatest(_batch_index_of("last") + 1, fn.lit(1)))
    by_size = near.groupBy(*STREAM, size.alias("size")).agg(
        fn.count("*").alias("entries"),
        fn.sum("messages").alias("messages"),
        fn.sum("order_violations").alias("order_violations"),
        fn.sum(fn.col("messages") - fn.bit_count("slots")).alias("duplicates"),
        fn.coalesce(fn.sum(fn.greatest(step - 1, fn.lit(0))), fn.lit(0)).alias("missing_entries"),
        fn.count_if(new_ledger).alias("rollovers"),
    )
    counts = ("messages", "order_violations", "duplicates", "missing_entries", "rollovers")
    sizes = fn.when(fn.col("size").isNotNull(), fn.struct("size", "entries"))
    return by_size.groupBy(*STREAM).agg(
        *(fn.sum(name).alias(name) for name in counts),
        fn.map_from_entries(fn.array_sort(fn.collect_list(sizes))).alias("batch_sizes"),
    )


def _arrival_order() -> WindowSpec:
    return _of_stream().orderBy("seq")


def _id_order(position: str) -> WindowSpec:
    return _of_stream().orderBy(position)


def _of_stream() -> WindowSpec:
    # Rows are sorted by stream first, and numbers are compared faster than texts.
    return Window.partitionBy("partition", "topic")


def _ledger_of(position: str) -> Column:
    return fn.shiftright(position, ENTRY_BITS + BATCH_BITS)


def _entry_of(position: str) -> Column:
    return fn.shiftright(position, BATCH_BITS).bitwiseAND((1 << ENTRY_BITS) - 1)


def _batch_index_of(position: str) -> Column:
    return (fn.col(position).bitwiseAND((1 << BATCH_BITS) - 1) - 1).cast("int")
