"""Returns the backlog of a streaming query, as reported in the query's progress.

Kafka's connector reports its backlog in `metrics`. PySpark gives a Python source no way to fill
`metrics`, so the source puts its figures into `latestOffset`.

    partition_backlogs(query.lastProgress.sources[0])
"""

import json
from dataclasses import dataclass

from pyspark.sql.streaming.listener import SourceProgress

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.offsets import parse_message_id


@dataclass(frozen=True, slots=True)
class PartitionBacklog:
    """The messages or entries that were stored but not yet read when the batch was planned.

    `topic` is "" if the query reads a single topic, or reads ledgers; for ledgers, `number` is the
    ledger's id. The number of entries is exact. The number of bytes is estimated from each ledger's
    average entry size, and the number of rows from the average number of rows per entry in the
    batch (None if the batch was empty).
    """

    topic: str
    number: int
    newest: MessageId
    entry_count: int
    size_bytes: int
    row_count: int | None


def partition_backlogs(source: SourceProgress) -> list[PartitionBacklog]:
    """Return the backlog of each partition, from the progress of a BookKeeper source."""
    report = json.loads(source.latestOffset)
    is_of_one_topic = all("newest" in each for each in report.values())
    lanes = [
        (topic, number, lane)
        for topic, by_number in ({"": report} if is_of_one_topic else report).items()
        for number, lane in by_number.items()
    ]
    batch_entry_count = sum(lane["batchEntries"] for *_, lane in lanes)
    return [
        PartitionBacklog(
            topic,
            int(number),
            parse_message_id(lane["newest"]),
            lane["backlogEntries"],
            lane["backlogBytes"],
            round(lane["backlogEntries"] * source.numInputRows / batch_entry_count)
            if batch_entry_count
            else None,
        )
        for topic, number, lane in lanes
    ]
