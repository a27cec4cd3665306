"""Reads a topic, follows it, and prints the results as JSON.

python read_and_follow.py ZOOKEEPER TOPIC FOLDER
"""

import json
import os
import sys

from pyspark.errors import AnalysisException

import labkit
from labkit.views.spark.session import spark_session

zookeeper, topic, folder = sys.argv[1:]
options = {"zookeeper": zookeeper, "topic": topic}
spark = spark_session("read and follow")


def where_it_runs(_: int) -> tuple[str, str]:
    return os.getcwd(), labkit.__file__


messages = spark.read.format("bookkeeper").options(**options, splitSize="1k").load()
payloads = sorted(bytes(row["payload"]).decode() for row in messages.select("payload").collect())
stream = spark.readStream.format("bookkeeper").options(**options).load()
writer = stream.writeStream.format("parquet").option("path", f"{folder}/rows")
query = writer.option("checkpointLocation", f"{folder}/followed").trigger(availableNow=True).start()
is_followed = query.awaitTermination(120)
saw: dict[str, object] = {
    "payloads": payloads,
    "followed": spark.read.parquet(f"{folder}/rows").count() if is_followed else -1,
    "session": type(spark).__module__,
}
try:
    spark.read.format("bookkeeper").options(**options, speed="9").load().count()
except AnalysisException as error:
    saw["refusal"] = str(error)
if "SPARK_REMOTE" not in os.environ:
    places = spark.sparkContext.parallelize(range(40), 8).map(where_it_runs).distinct().collect()
    saw["master"] = spark.sparkContext.master
    saw["tasks"] = messages.rdd.getNumPartitions()
    saw["folders"] = sorted({folder for folder, _ in places})
    saw["labkit"] = sorted({file for _, file in places})
sys.stdout.write(json.dumps(saw))
spark.stop()
