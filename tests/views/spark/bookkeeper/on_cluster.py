"""Runs on a real Spark cluster: reads a topic, follows it, copies it to two other topics, and
searches for broken promises. Prints the results as JSON.

python on_cluster.py ZOOKEEPER SERVICE_URL TOPIC SEEDS FOLDER
"""

import json
import os
import sys

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

import labkit
from labkit.views.spark.search import search
from labkit.views.spark.session import spark_session

zookeeper, service_url, topic, seeds, folder = sys.argv[1:]
spark = spark_session("on a cluster")


def where_it_runs(_: int) -> tuple[str, str]:
    return os.getcwd(), labkit.__file__


def run_stream(writer: DataStreamWriter, name: str) -> bool:
    writer = writer.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True)
    return bool(writer.start().awaitTermination(120))


def copied(rows: DataFrame) -> DataFrame:
    return rows.selectExpr("payload as value", "key")


reader = spark.read.format("bookkeeper").options(zookeeper=zookeeper, topic=topic)
messages = reader.option("splitSize", "1k").load()
payloads = sorted(bytes(row["payload"]).decode() for row in messages.select("payload").collect())
stream = spark.readStream.format("bookkeeper").options(zookeeper=zookeeper, topic=topic).load()
table = stream.writeStream.format("parquet").option("path", f"{folder}/rows")
is_followed = run_stream(table, "followed")
to = {"service.url": service_url}
batch = copied(messages).write.format("bookkeeper").options(**to, topic=f"{topic}-batch")
batch.mode("append").save()
copy = copied(stream).writeStream.format("bookkeeper").options(**to, topic=f"{topic}-stream")
is_copied = run_stream(copy, "copied")
places = spark.sparkContext.parallelize(range(40), 8).map(where_it_runs).distinct().collect()
runs = search(spark, range(int(seeds)), f"{folder}/runs").orderBy("seed")
sys.stdout.write(
    json.dumps(
        {
            "master": spark.sparkContext.master,
            "payloads": payloads,
            "tasks": messages.rdd.getNumPartitions(),
            "followed": spark.read.parquet(f"{folder}/rows").count() if is_followed else -1,
            "copied": is_copied,
            "folders": sorted({folder for folder, _ in places}),
            "labkit": sorted({file for _, file in places}),
            "digests": [row["digest"] for row in runs.select("digest").collect()],
        }
    )
)
spark.stop()
