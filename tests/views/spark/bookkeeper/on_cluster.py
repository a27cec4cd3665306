"""Reads a topic on a real Spark cluster, then follows it, and prints the results as JSON.

python on_cluster.py ZOOKEEPER TOPIC CHECKPOINT_FOLDER
"""

import json
import os
import sys

import labkit
from labkit.views.spark.session import spark_session

zookeeper, topic, checkpoint = sys.argv[1:]
spark = spark_session("on a cluster")


def where_it_runs(_: int) -> tuple[str, str]:
    return os.getcwd(), labkit.__file__


reader = spark.read.format("bookkeeper").options(zookeeper=zookeeper, topic=topic)
messages = reader.option("splitSize", "1k").load()
stream = spark.readStream.format("bookkeeper").options(zookeeper=zookeeper, topic=topic).load()
writer = stream.writeStream.format("parquet").option("path", f"{checkpoint}/rows")
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
finished = query.awaitTermination(120)
places = spark.sparkContext.parallelize(range(40), 8).map(where_it_runs).distinct().collect()
sys.stdout.write(
    json.dumps(
        {
            "master": spark.sparkContext.master,
            "payloads": sorted(
                bytes(row[0]).decode() for row in messages.select("payload").collect()
            ),
            "tasks": messages.rdd.getNumPartitions(),
            "followed": spark.read.parquet(f"{checkpoint}/rows").count() if finished else -1,
            "folders": sorted({folder for folder, _ in places}),
            "labkit": sorted({file for _, file in places}),
        }
    )
)
spark.stop()
