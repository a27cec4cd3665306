# %% [markdown]
# # 13 · How does a query read each message exactly once while bookies die?
#
# A query reads a topic that never ends. One day it stops or crashes, and you restart it. Which message must
# the query read next? If it starts too early, rows are duplicated. If it starts too late, rows are lost. In
# this lesson, Spark reads the ledgers of a running cluster directly from the bookies, while a producer
# writes and a bookie dies.
#
# **At the end you can**
# - look at a checkpoint and say which messages the next run will read,
# - write a sink that stores every row exactly once, no matter when the query crashes,
# - maintain a state that detects missing entries, no matter how the stream is split into batches and
#   replayed.
#
# **Takes** about 75 minutes. **Needs** a cluster of real processes, and Spark. **Prerequisite:** lesson 12.
#
# **The rule.** *A batch's offset says how far the query reads in each partition. The offset is stored
# before the batch is read, and the batch is committed after its sink has finished.* If the query crashes in
# between, it reads the batch again, with the same rows.

# %% tags=["parameters"]
message_count = 600  # flights: a third before the query starts, two thirds while it runs
dies = "b1"  # b0, b1 or b2
rows_per_trigger = 90  # maximum number of rows in a micro-batch

# %%
from pathlib import Path

from pyspark.sql import functions as fn

from labkit.course.lessons import (
    GAPS,
    STATE_STORE,
    GapDetector,
    LiveFlights,
    LocalCluster,
    NotedQuery,
    check,
    committed,
    compare,
    ensembles_in,
    error_of,
    finished,
    hint,
    in_thread,
    offset_table,
    parameters,
    picture_of_middle,
    planned,
    predict,
    row_count,
    spark_session,
    start,
    steps_of_a_micro_batch,
)

parameters("13", globals())

# %% [markdown]
# ## A picture first
#
# A query reads a stream in *micro-batches*. For each micro-batch, it stores two files in a directory, the
# checkpoint. Here are the steps of micro-batch 7, and the effect of a crash at each step:

# %%
steps_of_a_micro_batch()

# %% [markdown]
# ## A running topic
#
# The cluster has four bookies and a topic with two partitions. The topic rolls over to a new ledger after
# 12 entries. Each ledger is stored on three bookies, chosen in alphabetical order so that every run of this
# lesson is the same. For the same reason, the producer sends a batch of messages only when the batch is
# full or when it is told to flush, never because of a timeout.

# %%
cluster = await start(LocalCluster(4, traced=False))
flights = await LiveFlights.create(cluster, message_count + 60)
await flights.publish(message_count // 3)
print(f"{len(flights.published)} messages are stored, the last one as {flights.published[-1]}")

# %% [markdown]
# ## Read it once
#
# `format("bookkeeper")` needs the address of ZooKeeper and a topic. It looks up the topic's ledgers in the
# metadata, and Spark's workers read them directly from the bookies, without a broker or a consumer. Each
# row is a message. It contains the message's four numbers, the fields set by its producer, and the bookies
# that store it. (Tests of this notebook do not compare Java's startup output.)

# %% tags=["nbval-ignore-output"]
spark = spark_session("13-streaming")

# %%
options = {"zookeeper": cluster.zookeeper, "topic": "flights"}


def read():
    """Load every message that can be read now; the table does not change afterwards."""
    return spark.read.format("bookkeeper").options(**options).load()


# %%
table = await flights.visible(read)
shown = table.select("partition", "ledger", "entry", "batch_index", "key", "ensemble", "write_set")
await in_thread(shown.orderBy("partition", "ledger", "entry", "batch_index").limit(3).toPandas)

# %% [markdown]
# `in_thread` runs a blocking Spark call in a thread, so that the notebook's cluster can continue.
# `flights.visible` waits until the newest message can be read. Why do you have to wait? The message is
# stored and confirmed, and its producer has the receipt. But a reader may read only up to LastAddConfirmed,
# which bookies learn from the *next* entry (lesson 06). If there is no next entry, the topic's owner sends
# LastAddConfirmed after a while, as an explicit LAC.

# %%
await picture_of_middle(table)

# %% [markdown]
# ## Read it as a stream, in micro-batches
#
# Now use the same source with `readStream`. `maxRowsPerTrigger` limits the size of a micro-batch. With the
# trigger `availableNow`, the query reads everything that is available now, in as many micro-batches as it
# needs, and then stops.
#
# **Predict.** How many micro-batches will there be?

# %%
my_batches = None
# solution
my_batches = -(-len(flights.published) // rows_per_trigger)
# end
predict("micro-batches", my_batches)

# %%
checkpoint, sink = flights.folder / "checkpoint", flights.folder / "sink"


def query(**trigger):
    """Start this lesson's query, always with the same source, checkpoint and sink."""
    stream = spark.readStream.format("bookkeeper").options(**options)
    stream = stream.option("maxRowsPerTrigger", rows_per_trigger).load()
    rows = stream.select("partition", "ledger", "entry", "batch_index", "ensemble")
    writer = rows.writeStream.format("parquet").option("path", str(sink))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


# %%
await finished(query(availableNow=True))
compare("micro-batches", len(committed(checkpoint)))

# %%
print(f"micro-batches {committed(checkpoint)}, {await row_count(spark, sink)} rows")

# %% [markdown]
# A query runs in the background, so if it fails, you do not see an error in any cell. `finished` waits for
# a query to end. If the query has failed, `finished` raises the error that `q.exception()` returns.

# %% [markdown]
# ## Open the checkpoint
#
# The checkpoint is a directory. `offsets/` has a file for each micro-batch. Spark writes this file *before*
# it reads the rows. `commits/` has a file for each micro-batch whose sink has finished.

# %%
print(f"offsets {planned(checkpoint)}, commits {committed(checkpoint)}")

# %%
offset_table(checkpoint)

# %% [markdown]
# An offset contains one MessageID for each partition. You cannot subtract ids to get the number of messages
# between them, because ids are addresses (lesson 12). So the source had to count messages. Does an offset
# identify the last message that was delivered, or the first message that was not? Compare the newest offset
# with the producer's ids.
#
# **Predict.** Is it `"last delivered"` or `"first not delivered"`?

# %%
my_meaning = None
# solution
my_meaning = "last delivered"
# end
predict("the meaning of an offset", my_meaning)

# %%
print(flights.offsets_and_last_messages(checkpoint))
compare("the meaning of an offset", flights.meaning_of_offsets(checkpoint))

# %% [markdown]
# So an offset is the id of the last delivered message of each partition. If all messages of an entry have
# been delivered, the offset ends in -1, because the batch index -1 means the whole entry. The next run
# starts *after* the offset. The query option `start` works the other way round: the query starts with the
# message that you specify. So always say whether a position is inclusive. In Pulsar, this has confused many
# users (#6350, #23498).

# %% [markdown]
# ## A bookie dies while the query is running
#
# Now the query keeps running and checks for new messages twice a second. The producer publishes a third of
# the flights. Then you kill a bookie, and the producer publishes another third.

# %%
q = query(processingTime="500 milliseconds")


# %%
await flights.publish(message_count // 3)
await flights.caught_up(q, spark, sink)
await cluster.kill(dies)
await flights.publish(message_count // 3)
await flights.caught_up(q, spark, sink)
print(f"{dies} is {'up' if cluster.is_up(dies) else 'dead'}; the query is active: {q.isActive}")

# %% [markdown]
# The writer added the fourth bookie to the ensemble and continued (lesson 07). The readers asked another
# bookie of the write set. Was every message delivered exactly once?

# %%
await flights.gaps_and_duplicates(spark, sink)

# %%
await ensembles_in(spark, sink)

# %% [markdown]
# ## Stop and resume
#
# You stop the query and publish sixty flights while nobody is reading. Then you restart the same query with
# the same checkpoint. The bookie is still dead.
#
# **Predict.** How many rows does the query read?

# %%
my_rows = None
# solution
my_rows = 60
# end
predict("rows after the restart", my_rows)

# %%
q.stop()
before = await row_count(spark, sink)
await flights.publish(60)
await flights.visible(read)
await finished(query(availableNow=True))
compare("rows after the restart", await row_count(spark, sink) - before)

# %%
await flights.gaps_and_duplicates(spark, sink)

# %% [markdown]
# ## Crash between sink and commit
#
# This is the worst moment to crash. A micro-batch is in the sink, and the driver dies before it writes the
# commit. Here, you start a second query. Its sink only records each batch's number and row count.

# %%
noted = NotedQuery(spark, options, flights.folder)
print(await noted.run())

# %% [markdown]
# Now you delete the newest commit from the checkpoint, so that the checkpoint is in the same state as after
# such a crash. Then you restart the query. No new messages have been published.
#
# **Predict.** Which batches will the sink receive? Give a list of pairs, such as `[(7, 300)]`.

# %%
my_notes = None
# solution
my_notes = [noted.batches()[-1]]
# end
predict("batches after the crash", my_notes)

# %%
compare("batches after the crash", await noted.crash_before_commit())

# %% [markdown]
# The sink receives the last batch again, with the same number and the same rows, because the offset had
# been written before the crash. Reading is *at least once*. With an idempotent sink, the result is *exactly
# once*. The file sink of the first query is idempotent: it keeps a list of its batches (`_spark_metadata`)
# and skips batches that it already has.

# %% [markdown]
# ## Exercise 1: a sink of your own
#
# `foreachBatch` calls a function with the rows of a micro-batch and its number. After a crash, Spark
# delivers the same batch again, with the same number and the same rows. The first attempt may have stored
# all, some or none of the rows. Write a function that uses `rows.write...parquet(...)` to store the rows in
# files below `folder`. In the end, the files must contain every row exactly once.


# %%
# solution
def store(rows, batch_id, folder):
    rows.write.mode("overwrite").parquet(f"{folder}/batch={batch_id}")


# learner
# def store(rows, batch_id, folder):
#     """Store the rows of this batch below this folder."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streaming.sink", store)

# %% [markdown]
# Stuck? Run `hint("streaming.sink")`. This sink checks whether the batch already exists:


# %% tags=["refused"]
def once(rows, batch_id, folder):
    if not Path(folder, f"batch={batch_id}").exists():
        rows.write.parquet(f"{folder}/batch={batch_id}")


check("streaming.sink", once, must_pass=False)

# %% [markdown]
# ## Exercise 2: a state that detects gaps
#
# In lesson 12, you found holes in a complete table. A stream is never complete, and you cannot look back at
# it. So a query keeps a *state*, one small value per partition, and a function updates the state for each
# entry. Write this function. `last` is the state (None before the first entry), and `entry` is the next
# entry. Both are pairs of ledger id and entry id. Return the new state and the number of skipped entries.
#
# Spark may deliver the same entries again at any time, because it replays a batch after a crash.


# %%
# solution
def step(last, entry):
    if last is None:
        return entry, 0
    if entry <= last:
        return last, 0
    expected = last[1] + 1 if entry[0] == last[0] else 0
    return entry, entry[1] - expected


# learner
# def step(last, entry):
#     """Return the new state and the number of entries missing before this one."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streaming.gaps", step)

# %% [markdown]
# In Spark, the function is part of a `StatefulProcessor`, and the checkpoint stores its state. Here, a
# filter drops five entries before the detector sees them: four entries of partition 0, including the first
# entry of its second ledger, and one entry of partition 1. Spark's workers print messages in red. These
# messages vary from run to run. Continue below them.

# %%
spark.conf.set(*STATE_STORE)
is_lost = fn.concat_ws(":", "ledger", "entry").isin(flights.five_entries())

# %% tags=["talkative"]
seen = spark.readStream.format("bookkeeper").options(**options)
seen = seen.option("maxRowsPerTrigger", rows_per_trigger).load().where(~is_lost)
lanes = seen.select("partition", "ledger", "entry").groupBy("partition")
found = lanes.transformWithStateInPandas(GapDetector(), GAPS, outputMode="Append", timeMode="None")
states = str(flights.folder / "states")
writer = found.writeStream.format("memory").queryName("gaps").option("checkpointLocation", states)
await finished(writer.trigger(availableNow=True).start())

# %%
counted = spark.table("gaps").groupBy("partition").agg(fn.sum("missing").alias("missing"))
counted.orderBy("partition").toPandas()

# %% [markdown]
# The state outlives the query. You can read it as a table, with one position per partition.

# %%
state = spark.read.format("statestore").option("stateVarName", "last").load(states)
state.select("key.partition", "value.ledger", "value.entry").orderBy("partition").toPandas()

# %% [markdown]
# ## When a query fails
#
# The topic in this query does not exist, and yet the cell does not raise an error. You can get the error
# only from `q.exception()`:

# %%
wrong = spark.readStream.format("bookkeeper").options(**options).option("topic", "fligths").load()
print(await error_of(wrong, flights.folder))

# %% [markdown]
# ## What the real system does
#
# | here | elsewhere |
# | --- | --- |
# | `format("bookkeeper")` reads ledgers directly from the bookies | Pulsar's Spark connector reads through brokers, as a consumer; Pulsar SQL (Presto) read ledgers directly, too |
# | offset: the last delivered MessageID per partition | Kafka's source: the *next* offset per partition, in the same files |
# | `maxRowsPerTrigger`, `failOnDataLoss` | `maxOffsetsPerTrigger`, `failOnDataLoss` in Kafka's source |
# | a query reads a ledger that retention has deleted | it fails and names the ledger, unless `failOnDataLoss` is false |
# | `explicit_lac_interval_ms` | `explicitLacInterval` of BookKeeper's client: 0 (off) by default |
#
# - **Retention does not know about checkpoints.** A cursor prevents ledgers from being deleted, but a query
#   that reads ledgers does not have a cursor unless you set the option `predefinedSubscription`. Without
#   this option, the query loses ledgers if it is down for longer than the retention time.
# - **An entry id of -1** is a valid position. It is the position before the first entry of a ledger (Pulsar
#   #1277), and also the offset of a partition that has no messages yet.
# - **Ids that seem to decrease** (#20094). After a failure, a topic continues in a new ledger, in which
#   entry ids start at 0. The pair of ledger and entry still increases. From the entry ids alone, you cannot
#   tell which message is newer.

# %% [markdown]
# ## Questions
#
# <details><summary>Why is the offset written before the rows are read, and not afterwards?</summary>
#
# Because a repeated batch must have the same rows. If its end were not fixed in advance, the batch might
# have more rows the second time, and the sink could not tell which of them it already has.
# </details>
#
# <details><summary>You delete the checkpoint and restart the query. What does the file sink contain
# then?</summary>
#
# The query starts at the option `start`, by default the topic's first message, and numbers its batches from
# 0 again. The sink already has batches with these numbers and skips the new ones, so new rows may be lost.
# Treat the sink and the checkpoint as a unit.
# </details>
#
# <details><summary>How many messages is the query behind?</summary>
#
# You cannot find out by subtracting ids. You can count entries by using the ledgers' metadata. To count
# messages, you have to read the batches, or use an index that the broker adds to each entry.
# </details>
#
# <details><summary>Why does the gap detector keep the furthest position and not the most recent one?</summary>
#
# A redelivered entry would move the position back, and the next new entry would look like a gap.
# </details>
#
# **Next:** [14 break the protocol](14-break-the-protocol.ipynb). How do you find a bug that appears once in a
# thousand runs?

# %%
spark.stop()
await flights.stop()
