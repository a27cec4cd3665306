"""Copies a topic, as a stream, to the topic whose name has "-copy" appended, until everything has
been copied.

python copying_driver.py ZOOKEEPER SERVICE_URL TOPIC CHECKPOINT_FOLDER PAUSE_AFTER

If PAUSE_AFTER is not 0, each task stops after this number of rows and waits until it is killed. The
last 1000 of these rows may still be in Spark's buffers.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from threading import Event

import pyarrow as pa
from pyspark.sql import SparkSession

from labkit.views.spark.bookkeeper.source import BookKeeperSource

WAIT_S = 120
"""A worker ends after this time even if nobody kills it."""

zookeeper, service_url, topic, checkpoint, pause_after = sys.argv[1:]


def pause(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (batch.slice(number, 1) for batch in batches for number in range(batch.num_rows))
    yield from islice(rows, int(pause_after))
    Event().wait(WAIT_S)


builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", "500").getOrCreate()
spark.dataSource.register(BookKeeperSource)
reader = spark.readStream.format("bookkeeper").options(zookeeper=zookeeper, topic=topic)
messages = reader.option("maxRowsPerTrigger", "8000").load()
rows = messages.selectExpr("payload as value", "key", "event_time", "properties")
if int(pause_after):
    rows = rows.mapInArrow(pause, rows.schema)
writer = rows.writeStream.format("bookkeeper").option("checkpointLocation", checkpoint)
writer = writer.options(**{"service.url": service_url, "topic": f"{topic}-copy"})
writer.trigger(availableNow=True).start().awaitTermination()
spark.stop()
