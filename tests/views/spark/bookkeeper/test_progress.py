import json

from pyspark.sql.streaming.listener import SourceProgress

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.progress import PartitionBacklog, partition_backlogs

ONE = {"newest": "7:9:0:-1", "batchEntries": 4, "backlogEntries": 6, "backlogBytes": 600}
OTHER = {"newest": "8:2:1:-1", "batchEntries": 1, "backlogEntries": 0, "backlogBytes": 0}


def progress(report: object, row_count: int) -> SourceProgress:
    return SourceProgress("bookkeeper", "", "", json.dumps(report), row_count, 0.0, 0.0, {})


def test_the_backlog_in_rows_is_estimated_from_the_rows_per_entry_of_the_batch() -> None:
    assert partition_backlogs(progress({"0": ONE, "1": OTHER}, row_count=50)) == [
        PartitionBacklog("", 0, MessageId(7, 9, 0, -1), 6, 600, 60),
        PartitionBacklog("", 1, MessageId(8, 2, 1, -1), 0, 0, 0),
    ]


def test_the_backlog_in_rows_is_unknown_after_an_empty_batch() -> None:
    report = {"0": ONE | {"batchEntries": 0}}
    assert [each.row_count for each in partition_backlogs(progress(report, 0))] == [None]


def test_a_query_over_several_topics_has_the_backlog_of_each_topic() -> None:
    backlogs = partition_backlogs(progress({"a": {"0": ONE}, "b": {"0": OTHER}}, row_count=5))
    assert [(each.topic, each.entry_count) for each in backlogs] == [("a", 6), ("b", 0)]
