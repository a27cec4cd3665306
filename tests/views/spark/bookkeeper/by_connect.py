"""Reads a topic through Spark Connect, then follows it, and prints the results as JSON.

python by_connect.py ZOOKEEPER TOPIC CHECKPOINT_FOLDER
"""

import json
import sys

from pyspark.errors import AnalysisException

from labkit.views.spark.session import spark_session

zookeeper, topic, checkpoint = sys.argv[1:]
spark = spark_session("behind Connect")
reader = spark.read.format("bookkeeper").options(zookeeper=zookeeper, topic=topic)
stream = spark.readStream.format("bookkeeper").options(zookeeper=zookeeper, topic=topic).load()
writer = stream.writeStream.format("parquet").option("path", f"{checkpoint}/rows")
query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
finished = query.awaitTermination(120)
payloads = sorted(bytes(row[0]).decode() for row in reader.load().select("payload").collect())
followed = spark.read.parquet(f"{checkpoint}/rows").count() if finished else -1
refusal = ""
try:
    reader.option("speed", "9").load().count()
except AnalysisException as error:
    refusal = str(error)
saw = {"payloads": payloads, "followed": followed, "session": type(spark).__module__}
sys.stdout.write(json.dumps(saw | {"refusal": refusal}))
spark.stop()
