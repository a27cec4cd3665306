"""Spark jobs over the MessageIDs in a table of received messages.

A job takes a DataFrame and returns one. All jobs read the columns `topic`, `partition`, `ledger`,
`entry`, `batch_index` and `seq` (the arrival order); some of them read one more column. A stream is
one partition of one topic. Ids from different streams cannot be compared.

The queries rely on these rules:

- A ledger belongs to one stream, and only a stream's newest ledger is open (M4).
- The entry ids of a ledger are consecutive and start at 0 (M5).
- When a ledger is full or old enough, the stream continues in a new one (M6); see `ledgers`.
- A batch is one entry that contains several messages; batch index -1 means that the message was
  not batched (M3, M7); see `publishing`.

The jobs use only built-in functions and windows, because calling a Python function for each row
takes four to five times as long.
"""

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as fn

STREAM = ("topic", "partition")
ID_PARTS = ("ledger", "entry", "partition", "batch_index")
PARTS = "parts of the id"

LEDGER_BITS = 23
ENTRY_BITS = 28
BATCH_BITS = 12
"""The number of bits of each part of a position: 63 in all, so that a position is never
negative.
"""


def parse_message_ids(ids: DataFrame, column: str = "message_id") -> DataFrame:
    """Split the text `ledgerId:entryId:partition:batchIndex` into four integer columns.

    If the text is not a MessageID, all four are null.
    """
    # Use three projections: in a single one, Spark would split the text again for each use of a
    # part.
    parts = ids.withColumn(PARTS, fn.split(column, ":"))
    numbers = [fn.get(PARTS, fn.lit(i)).try_cast("bigint") for i in range(4)]
    cast = parts.withColumns(dict(zip(ID_PARTS, numbers, strict=True)))
    ledger, entry, partition, batch_index = map(fn.col, ID_PARTS)
    # The bitwise OR is null if any part is null.
    combined = ledger.bitwiseOR(entry).bitwiseOR(partition).bitwiseOR(batch_index)
    is_valid = combined.isNotNull() & (fn.size(PARTS) == 4)
    return cast.withColumns({name: fn.when(is_valid, fn.col(name)) for name in ID_PARTS}).drop(
        PARTS
    )


def with_position(messages: DataFrame) -> DataFrame:
    """Add `position`: ledger, entry and batch index packed into one bigint.

    Positions within a stream sort in the same order as its MessageIDs, and one number is faster to
    compare and sort than three. The job fails with an error that contains the id if a part is null
    or out of range: ledger ids must be below 2^23, entry ids below 2^28, and batch indexes from -1
    to 4094.
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
    message = fn.format_string(
        "MessageID %s:%s:%s:%s does not fit into a position: the ledger id must be below"
        f" 2^{LEDGER_BITS}, the entry id below 2^{ENTRY_BITS}, and the batch index from -1 to"
        f" {2**BATCH_BITS - 2}",
        *ID_PARTS,
    )
    return messages.withColumn("position", fn.when(fits, packed).otherwise(fn.raise_error(message)))


def order_violations(messages: DataFrame) -> DataFrame:
    """Return messages that arrived right after a message of the same stream with a greater id.

    This includes messages that were redelivered late. `after_ledger`, `after_entry` and
    `after_batch_index` contain the id of that preceding message.
    """
    before = fn.lag("position").over(_stream_by("seq"))
    arrivals = with_position(messages).withColumn("before", before)
    return arrivals.where("position < before").select(
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
    """Return messages that arrived more than once, with the `seq` of the first and last arrival."""
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
    """Return ranges of entries that did not arrive although a later entry of the ledger did.

    Entries that precede the first one received from a stream are not counted, because the reader
    may have started there. Entries missing at the end of a ledger leave no gap between ids;
    `ledgers.missing_ends` finds such entries.
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
    """Return one row per entry, with the previous entry of its stream.

    `ledger_before` and `entry_before` are null for the first entry of a stream.
    """
    whole_entry = fn.lit(-1).alias("batch_index")
    entries = with_position(messages.select(*STREAM, "ledger", "entry", whole_entry).distinct())
    before = entries.withColumn("before", fn.lag("position").over(_stream_by("position")))
    return before.withColumns(
        {"ledger_before": _ledger_of("before"), "entry_before": _entry_of("before")}
    ).drop("position", "before", "batch_index")


def stream_report(messages: DataFrame) -> DataFrame:
    """Return all counts at once, with one row per stream; `batch_sizes` maps a batch size to the
    number of entries of this size.

    All windows partition by stream, so the messages are shuffled only once. The messages are also
    sorted only once, by arrival: after that, each block of 64 slots of an entry becomes one row,
    and only blocks are sorted by id.
    """
    before = fn.lag("position").over(_stream_by("seq"))
    arrivals = with_position(messages).withColumn("before", before)
    blocks = arrivals.groupBy(*STREAM, fn.shiftright("position", 6).alias("block")).agg(
        fn.count("*").alias("messages"),
        fn.count_if(fn.col("position") < fn.col("before")).alias("order_violations"),
        # One bit per slot: a duplicate sets the same bit again, but is still counted in `messages`.
        fn.bit_or(fn.expr("1L << int(position & 63)")).alias("slots"),
        fn.max("position").alias("last"),
    )
    # Sort blocks, not messages, by id, because there are far fewer of them.
    near = blocks.withColumn("next", fn.lead("last").over(_stream_by("last")))
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


def _stream_by(column: str) -> WindowSpec:
    # Put these columns first in the sort order, because numbers compare faster than strings.
    return Window.partitionBy("partition", "topic").orderBy(column)


def _ledger_of(position: str) -> Column:
    return fn.shiftright(position, ENTRY_BITS + BATCH_BITS)


def _entry_of(position: str) -> Column:
    return fn.shiftright(position, BATCH_BITS).bitwiseAND((1 << ENTRY_BITS) - 1)


def _batch_index_of(position: str) -> Column:
    return (fn.col(position).bitwiseAND((1 << BATCH_BITS) - 1) - 1).cast("int")
