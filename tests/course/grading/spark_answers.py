"""Answers to the exercises of lessons 12 and 13, right and wrong, as cells of a submission."""

from collections.abc import Sequence

BEGIN = "from pyspark.sql import functions as fn, Window"
ORDER = """
def order(messages):
    place = fn.struct(PARTS)
    arrival = Window.partitionBy(STREAM).orderBy("seq")
    compared = messages.withColumn("place", place)
    return compared.withColumn("before", fn.lag("place").over(arrival)).where("place < before")
check("streams.order", order)
"""
HOLES = """
def holes(messages):
    arrived = messages.groupBy("topic", "partition", "ledger").agg(
        fn.min("entry").alias("first"), fn.max("entry").alias("last"), COUNT.alias("entries")
    )
    chain = Window.partitionBy("topic", "partition").orderBy("ledger")
    begin = BEGIN
    missing = fn.col("last") + 1 - begin - fn.col("entries")
    return arrived.withColumn("missing", missing).where("missing > 0")
check("streams.holes", holes)
"""
TWICE = """
def stored_twice(messages):
    copies = messages.groupBy(BY).agg(IDS.alias("copies"))
    return copies.where("copies > 1")
check("streams.stored_twice", stored_twice)
"""
SINK = """
def store(rows, batch_id, folder):
    rows.write.mode("overwrite").parquet(f"{folder}/PLACE")
check("streaming.sink", store)
"""
RIGHT = {
    "PARTS": '"ledger", "entry", "batch_index"',
    "STREAM": '"topic", "partition"',
    "COUNT": 'fn.count_distinct("entry")',
    "BEGIN": 'fn.when(fn.row_number().over(chain) == 1, fn.col("first")).otherwise(0)',
    "BY": '"topic", "partition", "producer", "sequence_id"',
    "PLACE": "batch={batch_id}",
    "IDS": 'fn.count_distinct("ledger", "entry", "batch_index")',
}


def answered(code: str, **others: str) -> str:
    """Return a cell with an answer that is right except for the given parts."""
    for name, part in {**RIGHT, **others}.items():
        code = code.replace(name, part)
    return code


def submission(*answers: str) -> Sequence[str]:
    return (BEGIN, *answers)
