"""The three jobs of lesson 12 in Spark, DuckDB and Polars.

    order        messages that arrived right after a message of their stream with a greater id
    duplicates   messages that arrived more than once
    missing      ranges of entries that did not arrive although a later entry of the ledger did

Spark runs labkit's jobs from `labkit.views.spark.streams`. The other two engines run the same jobs,
written the way their users would write them. All engines read ids as text from one Parquet file,
and each of the three jobs parses the text again.
"""

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import DataFrame

from benchmarks.message_ids import PARTS, Row
from labkit.views.spark import streams
from labkit.views.spark.session import DRIVER_SETTINGS, spark_session

_CORES = 2
_DUCKDB_MEMORY = "3GB"
_SPARK_MEMORY = "2600m"
"""The JVM's heap. Outside the heap, the JVM and the driver need up to a gigabyte."""
_SPARK_TASKS = 32
"""Each task of a shuffle sorts its share of the rows in memory, if it fits."""

_DUPLICATE = ["partition", "ledger", "entry", "batch_index", "arrivals", "first_seq", "last_seq"]
_MISSING = ["partition", "ledger", "first_missing", "last_missing"]


@dataclass(frozen=True, slots=True)
class Found:
    """The rows that the three jobs return.

    order: partition, seq
    duplicates: partition, ledger, entry, batch index, number of arrivals, first and last seq
    missing: partition, ledger, first and last missing entry
    """

    order: frozenset[Row]
    duplicates: frozenset[Row]
    missing: frozenset[Row]

    def __str__(self) -> str:
        return (
            f"{len(self.order):,} order violations, {len(self.duplicates):,} duplicates,"
            f" {len(self.missing):,} ranges of missing entries"
        )


class Engine(Protocol):
    def __init__(self, scratch: Path) -> None:
        """Start the engine, which writes its temporary files to the folder `scratch`."""

    def run(self, path: Path) -> Found:
        """Run the three jobs on a Parquet file, one after the other."""


class Spark:
    def __init__(self, scratch: Path) -> None:
        DRIVER_SETTINGS["spark.driver.memory"] = _SPARK_MEMORY
        DRIVER_SETTINGS["spark.local.dir"] = str(scratch)
        self._spark = spark_session("benchmark")
        self._spark.conf.set("spark.sql.shuffle.partitions", _SPARK_TASKS)

    def run(self, path: Path) -> Found:
        parsed = streams.parse_message_ids(self._spark.read.parquet(str(path)))

        def rows(job: DataFrame, *columns: str) -> frozenset[Row]:
            return frozenset(tuple(row) for row in job.select(*columns).collect())

        return Found(
            rows(streams.order_violations(parsed), "partition", "seq"),
            rows(streams.duplicates(parsed), *_DUPLICATE),
            rows(streams.missing_entries(parsed), *_MISSING),
        )


class DuckDB:
    def __init__(self, scratch: Path) -> None:
        duckdb = importlib.import_module("duckdb")
        settings = {"threads": _CORES, "memory_limit": _DUCKDB_MEMORY}
        self._connection = duckdb.connect(config={**settings, "temp_directory": str(scratch)})

    def run(self, path: Path) -> Found:
        parts = ", ".join(f"p[{i}]::bigint AS {name}" for i, name in enumerate(PARTS, 1))
        self._connection.execute(f"""
            CREATE OR REPLACE VIEW parsed AS
            SELECT *, (ledger << 40) + (entry << 12) + batch_index + 1 AS position
            FROM (
                SELECT seq, topic, {parts}
                FROM (SELECT seq, topic, string_split(message_id, ':') AS p FROM '{path}')
            )
        """)
        return Found(
            self._rows("""
                SELECT partition, seq FROM parsed
                QUALIFY position < lag(position) OVER (PARTITION BY topic, partition ORDER BY seq)
            """),
            self._rows("""
                SELECT partition, ledger, entry, batch_index, count(*), min(seq), max(seq)
                FROM parsed GROUP BY topic, partition, ledger, entry, batch_index
                HAVING count(*) > 1
            """),
            self._rows("""
                WITH entries AS (
                    SELECT DISTINCT topic, partition, ledger, entry FROM parsed
                ), near AS (
                    SELECT *, lag(ledger) OVER stream AS ledger_before,
                        if(ledger = ledger_before, lag(entry) OVER stream + 1, 0) AS first_missing
                    FROM entries
                    WINDOW stream AS (PARTITION BY topic, partition ORDER BY ledger, entry)
                )
                SELECT partition, ledger, first_missing, entry - 1 FROM near
                WHERE ledger_before IS NOT NULL AND entry > first_missing
            """),
        )

    def _rows(self, query: str) -> frozenset[Row]:
        return frozenset(self._connection.execute(query).fetchall())


class Polars:
    def __init__(self, scratch: Path) -> None:
        os.environ |= {"POLARS_MAX_THREADS": str(_CORES), "POLARS_TEMP_DIR": str(scratch)}
        self._polars = importlib.import_module("polars")

    def run(self, path: Path) -> Found:
        pl = self._polars
        stream = ["topic", "partition"]
        parts = pl.col("message_id").str.split_exact(":", 3).struct.rename_fields(PARTS)
        parsed = (
            pl.scan_parquet(path)
            .select("seq", "topic", parts.alias("parts"))
            .unnest("parts")
            .with_columns(pl.col(PARTS).cast(pl.Int64))
        )
        ledger, entry, batch_index = pl.col("ledger"), pl.col("entry"), pl.col("batch_index")
        position, seq = ledger * 2**40 + entry * 2**12 + batch_index + 1, pl.col("seq")
        before = pl.col("position").shift().over(stream, order_by="seq")
        order = parsed.with_columns(position=position).filter(pl.col("position") < before)
        duplicates = (
            parsed.group_by(*stream, "ledger", "entry", "batch_index")
            .agg(
                pl.len().alias("arrivals"),
                seq.min().alias("first_seq"),
                seq.max().alias("last_seq"),
            )
            .filter(pl.col("arrivals") > 1)
        )
        entries = parsed.select(*stream, "ledger", "entry").unique()
        in_order = {"partition_by": stream, "order_by": ["ledger", "entry"]}
        near = entries.with_columns(
            ledger_before=ledger.shift().over(**in_order),
            entry_before=entry.shift().over(**in_order),
        )
        expected = pl.when(ledger == pl.col("ledger_before")).then(pl.col("entry_before") + 1)
        missing = near.with_columns(
            first_missing=expected.otherwise(0), last_missing=entry - 1
        ).filter(pl.col("ledger_before").is_not_null() & (entry > pl.col("first_missing")))

        def rows(job: Any, *columns: str) -> frozenset[Row]:
            return frozenset(job.select(*columns).collect(engine="streaming").rows())

        return Found(
            rows(order, "partition", "seq"),
            rows(duplicates, *_DUPLICATE),
            rows(missing, *_MISSING),
        )


ENGINES: tuple[type[Engine], ...] = (Spark, DuckDB, Polars)
