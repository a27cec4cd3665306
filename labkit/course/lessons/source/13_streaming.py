# %% [markdown]
# # 13 · How does a query read each message once, while bookies die?
#
# A query reads a topic that never ends. One day it stops, or crashes, and is started again. From which
# message must it go on? Too early, and rows come twice; too late, and rows are lost. Here Spark reads
# the ledgers of a running cluster, straight from the bookies, while a producer writes and a bookie dies.
#
# **At the end you can**
# - read a checkpoint, and say from it which messages the next run will read,
# - write a sink that has every row once, whenever the query crashes,
# - keep a state that finds missing entries, however the stream is cut into batches and repeated.
#
# **Takes** about 75 minutes. **Needs** a cluster of real processes, and Spark. **After** lesson 12.
#
# **The rule.** *An offset is the id of the last message that was given, for each partition. It is written
# down before the batch is read, and the batch is committed after its sink is done.* What lies between
# the two is read again with the same rows.

# %% tags=["parameters"]
message_count = 600  # flights: a third before the query runs, two thirds while it does
dies = "bookie-2"  # bookie-1, bookie-2 or bookie-3
rows_per_trigger = 90  # how many rows a micro-batch has at most

# %%
import asyncio
import json
import tempfile
from itertools import islice
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as fn

from labkit.course.lessons import check, compare, hint, parameters, predict, start

# %%
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.views.spark import flights, gaps, streams
from labkit.views.spark.picture import message_id_picture
from labkit.views.spark.session import spark_session
from labkit.views.widgets.step_list import Step, Steps
from labkit.worlds.live.processes.cluster import LocalCluster

parameters("13", globals())

# %% [markdown]
# ## A picture first
#
# A query reads in portions, called *micro-batches*, and keeps two notes about each in a folder, the
# checkpoint. Here is micro-batch 7, and what a crash means at each step:

# %%
Steps(
    [
        Step("commits/6 is written"),
        Step("offsets/7 is written: where batch 7 ends", "crash here: batch 7 is planned again"),
        Step("its rows are read from the bookies", "crash here: it comes again, the same rows"),
        Step("the sink stores them", "crash here: it comes again, some rows are stored already"),
        Step("commits/7 is written", "crash here: it comes again, all rows are stored already"),
    ]
)

# %% [markdown]
# ## A running topic
#
# There are four bookies, and a topic of two partitions whose ledgers roll over at 12 entries. Each
# ledger is on three bookies, chosen in alphabetical order so that every run of this lesson is the same.
# For the same reason every batch of messages is full or flushed, never closed by time.

# %%
cluster = await start(LocalCluster(4, traced=False))
client = await cluster.connect(
    "owner", placement=in_name_order, config=ClientConfig(explicit_lac_interval_ms=100)
)
config = ManagedLedgerConfig(max_entries_per_ledger=12)
topic = await Topic.create(client, "flights", partitions=2, config=config)
producer = topic.producer("timetable", batching=Batching(max_messages=10, max_delay_ms=60_000))

# %%
events = flights.flight_events(message_count + 60)
published = []


async def publish(count):
    """Send the next flights; their receipts bring their ids."""
    published.extend(await flights.publish(producer, list(islice(events, count))))


await publish(message_count // 3)
print(f"{len(published)} messages are stored, the last one as {published[-1]}")

# %% [markdown]
# ## Read it once
#
# `format("bookkeeper")` needs the address of ZooKeeper and a topic. It asks the metadata for the topic's
# ledgers, and Spark's workers read them from the bookies; no broker and no consumer is involved. A row
# is a message: its four numbers, what its producer recorded, and where it is stored. (What Java prints
# when it starts is not compared.)

# %% tags=["nbval-ignore-output"]
spark = spark_session("13-streaming")

# %%
options = {"zookeeper": cluster.zookeeper, "topic": "flights"}


async def in_thread(call):
    """Let Spark wait in a thread, so that the notebook's cluster can go on."""
    return await asyncio.to_thread(call)


def read():
    """All that can be read now; a loaded table stays as it was loaded."""
    return spark.read.format("bookkeeper").options(**options).load()


# %%
async def visible():
    """All messages, once the newest one can be read."""
    async with asyncio.timeout(110):
        while await in_thread(read().count) < len(published):
            await asyncio.sleep(0.1)
    return read()


table = await visible()
shown = table.select("partition", "ledger", "entry", "batch_index", "key", "ensemble", "write_set")
await in_thread(shown.orderBy("partition", "ledger", "entry", "batch_index").limit(3).toPandas)

# %% [markdown]
# Why wait until the newest message is *visible*? It is stored and confirmed, and its producer has the receipt.
# But a reader may only read up to LastAddConfirmed, which bookies learn with the *next* entry (lesson
# 06). If none comes, the owner sends it after a while: the explicit LAC.

# %%
order = ["partition", "ledger", "entry", "batch_index"]
rows = (await in_thread(table.select("topic", *order).toPandas)).sort_values(order)
rows["seq"] = range(len(rows))
message_id_picture(pa.Table.from_pandas(rows), seq=len(rows) // 2)

# %% [markdown]
# ## Read it as a stream, in portions
#
# The same source, with `readStream`. `maxRowsPerTrigger` bounds a micro-batch; the trigger `availableNow`
# reads what is there now, in as many micro-batches as needed, and ends.
#
# **Predict:** how many micro-batches will there be?

# %%
my_batches = None
# solution
my_batches = -(-len(published) // rows_per_trigger)
# end
predict("micro-batches", my_batches)

# %%
folder = tempfile.TemporaryDirectory(prefix="labkit-stream-")
checkpoint, sink = Path(folder.name) / "checkpoint", Path(folder.name) / "sink"


def query(**trigger):
    """The query of this lesson: always the same source, the same checkpoint, the same sink."""
    stream = spark.readStream.format("bookkeeper").options(**options)
    stream = stream.option("maxRowsPerTrigger", rows_per_trigger).load()
    rows = stream.select("partition", "ledger", "entry", "batch_index", "ensemble")
    writer = rows.writeStream.format("parquet").option("path", str(sink))
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


# %%
def committed(folder):
    """The micro-batches of a query that are done, by their numbers."""
    return sorted(int(path.name) for path in (folder / "commits").glob("[0-9]*"))


def row_count():
    """How many rows the sink has."""
    return spark.read.parquet(str(sink)).count()


q = query(availableNow=True)
await in_thread(q.awaitTermination)
assert q.exception() is None, q.exception()
compare("micro-batches", len(committed(checkpoint)))

# %%
print(f"micro-batches {committed(checkpoint)}, {await in_thread(row_count)} rows")

# %% [markdown]
# The last line of such a cell matters. A query runs in the background, and when it fails, no cell shows
# the error. `q.exception()` is None, or the error.

# %% [markdown]
# ## Open the checkpoint
#
# The checkpoint is a folder. `offsets/` has a file for each micro-batch, written *before* its rows are
# read; `commits/` one for each whose sink is done.

# %%
for name in ("offsets", "commits"):
    print(name, sorted(path.name for path in (checkpoint / name).glob("[0-9]*")))


# %%
def offsets():
    """The offset that each micro-batch ends at, as the checkpoint has it: its file's last line."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    lines = {int(file.name): file.read_text(encoding="utf-8").splitlines() for file in files}
    return {number: json.loads(last) for number, (*_, last) in lines.items()}


pd.DataFrame.from_dict(offsets(), orient="index")

# %% [markdown]
# An offset has one MessageID for each partition. Subtracting two ids does not give the number of
# messages between them: ids are addresses (lesson 12), so the source counted. Is an offset the last
# message that was given, or the first that was not? Compare the newest one with the producer's ids.
#
# **Predict:** `"last given"` or `"first not given"`?

# %%
my_meaning = None
# solution
my_meaning = "last given"
# end
predict("what an offset says", my_meaning)

# %%
newest = offsets()[max(offsets())]
stored = {str(p): max(i for i in published if i.partition == p) for p in (0, 1)}
print({p: f"offset {newest[p]}, last message {stored[p]}" for p in newest})
is_last = all(newest[p].split(":")[:2] == str(stored[p]).split(":")[:2] for p in newest)
compare("what an offset says", "last given" if is_last else "first not given")

# %% [markdown]
# The offset ends in -1 where all of an entry was given: -1 as batch index means the whole entry. So the
# next run begins *after* it. The option `start` of a query works the other way round: the message named
# there is the first one that comes. Always say whether a position is inclusive; in Pulsar this has
# confused many (#6350, #23498).

# %% [markdown]
# ## A bookie dies in mid-stream
#
# Now the query keeps running, and looks for new messages twice a second. The producer publishes a third of the
# flights; the bookie is killed; another third.

# %%
q = query(processingTime="500 milliseconds")


async def caught_up(query):
    """Until the sink has every message, or the query has failed."""
    async with asyncio.timeout(110):
        while await in_thread(row_count) < len(published) and query.isActive:
            await asyncio.sleep(0.2)
    assert query.exception() is None, query.exception()


# %%
await publish(message_count // 3)
await caught_up(q)
await cluster.kill(dies)
await publish(message_count // 3)
await caught_up(q)
print(f"{dies} is {'up' if cluster.is_up(dies) else 'dead'}; the query is active: {q.isActive}")

# %% [markdown]
# The writer put the fourth bookie into the ensemble and went on (lesson 07). The readers asked another
# bookie of the write set. Were all messages given, and each of them once?


# %%
def gaps_and_doubles():
    """Compare the sink with the producer's receipts."""
    given = spark.read.parquet(str(sink)).select(*streams.ID_PARTS).collect()
    ids = [":".join(map(str, row)) for row in given]
    missing = set(map(str, published)) - set(ids)
    return {"missing": len(missing), "doubles": len(ids) - len(set(ids)), "rows": len(ids)}


await in_thread(gaps_and_doubles)

# %%
assert gaps_and_doubles() == {"missing": 0, "doubles": 0, "rows": len(published)}
ensembles = spark.read.parquet(str(sink)).select(fn.array_join("ensemble", " ").alias("ensemble"))
ensembles.distinct().orderBy("ensemble").toPandas()

# %% [markdown]
# ## Stop, and go on
#
# The query is stopped. Sixty flights are published while nothing reads them. Then the same query is
# started again, from the same checkpoint.
#
# **Predict:** how many rows does it read? The bookie is still dead.

# %%
my_rows = None
# solution
my_rows = 60
# end
predict("rows after the restart", my_rows)

# %%
q.stop()
before = await in_thread(row_count)
await publish(60)
await visible()
q = query(availableNow=True)
await in_thread(q.awaitTermination)
assert q.exception() is None, q.exception()
compare("rows after the restart", await in_thread(row_count) - before)

# %%
assert gaps_and_doubles() == {"missing": 0, "doubles": 0, "rows": len(published)}
print("Exactly the new messages: no gap, no double.")

# %% [markdown]
# ## Crash between sink and commit
#
# The worst moment: a micro-batch is in the sink, and the driver dies before it writes the commit. Here is
# a second query, whose sink only notes what it is given: the number of the batch and of its rows. It
# writes the notes into a file, because with Spark Connect the function runs in the server.

# %%
noted, notes_file = Path(folder.name) / "noted", Path(folder.name) / "notes"


def note(rows, number):
    """The sink: a line for each time that it is given a batch."""
    with notes_file.open("a", encoding="utf-8") as file:
        file.write(f"[{number}, {rows.count()}]\n")


def notes():
    """What the sink was given: number and rows, one pair for each time."""
    return [tuple(json.loads(line)) for line in notes_file.read_text(encoding="utf-8").splitlines()]


# %%
async def note_all():
    """Read all there is, and note it."""
    stream = spark.readStream.format("bookkeeper").options(**options)
    writer = stream.option("maxRowsPerTrigger", 300).load().writeStream.foreachBatch(note)
    q = writer.option("checkpointLocation", str(noted)).trigger(availableNow=True).start()
    await in_thread(q.awaitTermination)
    assert q.exception() is None, q.exception()


# %%
await note_all()
print(notes())

# %% [markdown]
# Now remove the newest commit from the checkpoint, which is exactly the state after such a crash, and
# start the query again. Nothing new was published.
#
# **Predict:** what will the sink be given? A list of pairs, such as `[(7, 300)]`.

# %%
my_notes = None
# solution
my_notes = [notes()[-1]]
# end
predict("given after the crash", my_notes)

# %%
newest, before = notes()[-1][0], len(notes())
(noted / "commits" / str(newest)).unlink()
(noted / "commits" / f".{newest}.crc").unlink(missing_ok=True)
await note_all()
compare("given after the crash", notes()[before:])

# %% [markdown]
# It gets the last batch again, with the same number and the same rows, because the offset was written
# before. Reading is *at least once*. With an idempotent sink it becomes *exactly once*. The file sink of
# the first query is idempotent: it keeps a list of its batches (`_spark_metadata`) and skips those that
# it has.

# %% [markdown]
# ## Exercise 1: a sink of your own
#
# `foreachBatch` gives a function the rows of a micro-batch and its number. After a crash it comes again,
# with the same number and the same rows; the first attempt may have stored all of it, a part of it or
# nothing. Write the function: `rows.write...parquet(...)` into files somewhere below `folder`. In the
# end, every row must be there once.


# %%
# solution
def store(rows, batch_id, folder):
    rows.write.mode("overwrite").parquet(f"{folder}/batch={batch_id}")


# learner
# def store(rows, batch_id, folder):
#     """Store the rows of this batch below the folder."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streaming.sink", store)

# %% [markdown]
# Stuck? `hint("streaming.sink")`. This one looks whether the batch is there already:


# %% tags=["refused"]
def once(rows, batch_id, folder):
    if not Path(folder, f"batch={batch_id}").exists():
        rows.write.parquet(f"{folder}/batch={batch_id}")


check("streaming.sink", once, must_pass=False)

# %% [markdown]
# ## Exercise 2: a state that finds gaps
#
# Lesson 12 found holes in a table that was complete. A stream is never complete, and its past is gone.
# A query keeps a *state*, one small value for each partition, and a function updates it with each entry.
# Write that function. `last` is the state (None before the first entry), `entry` the next one; both are
# pairs of ledger and entry id. Return the new state, and how many entries were skipped.
#
# The same entries may come again at any time, because Spark replays a batch after a crash.


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
#     """The new state, and how many entries are missing before this one."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streaming.gaps", step)

# %% [markdown]
# In Spark the function lives in a `StatefulProcessor`, and its state in the checkpoint. Here a reader
# loses four entries of partition 0, the first one of its second ledger among them, and one of partition
# 1 (a filter drops them before the detector sees them). Spark's workers print
# messages in red, which differ from run to run; read on below them.

# %%
for name, value in gaps.STATE_STORE.items():
    spark.conf.set(name, value)
first, second, *_ = sorted({i.ledger_id for i in published if i.partition == 0})
other = min(i.ledger_id for i in published if i.partition == 1)
lost = [(first, 2), (first, 3), (first, 7), (second, 0), (other, 1)]
is_lost = fn.concat_ws(":", "ledger", "entry").isin([f"{ledger}:{entry}" for ledger, entry in lost])

# %% tags=["talkative"]
seen = spark.readStream.format("bookkeeper").options(**options)
seen = seen.option("maxRowsPerTrigger", rows_per_trigger).load().where(~is_lost)
lanes = seen.select("partition", "ledger", "entry").groupBy("partition")
detector = gaps.GapDetector()
found = lanes.transformWithStateInPandas(detector, gaps.GAPS, outputMode="Append", timeMode="None")
states = Path(folder.name) / "states"
q = found.writeStream.format("memory").queryName("gaps")
q = q.option("checkpointLocation", str(states)).trigger(availableNow=True).start()
await in_thread(q.awaitTermination)
assert q.exception() is None, q.exception()

# %%
counted = spark.table("gaps").groupBy("partition").agg(fn.sum("missing").alias("missing"))
counted.orderBy("partition").toPandas()

# %% [markdown]
# The state outlives the query. It can be read like a table: one place for each partition.

# %%
state = spark.read.format("statestore").option("stateVarName", gaps.STATE).load(str(states))
state.select("key.partition", "value.ledger", "value.entry").orderBy("partition").toPandas()

# %% [markdown]
# ## When it fails
#
# This topic does not exist, and the cell ends without an error. Only `q.exception()` has it:

# %%
wrong = spark.readStream.format("bookkeeper").options(**options).option("topic", "fligths").load()
q = wrong.writeStream.format("noop").option("checkpointLocation", f"{folder.name}/wrong").start()
while q.isActive:
    await asyncio.sleep(0.1)
assert q.exception() is not None
told = str(q.exception()).splitlines()
print(next(line for line in reversed(told) if "fligths" in line).partition(" in the cluster")[0])

# %% [markdown]
# ## What the real system does
#
# | here | elsewhere |
# | --- | --- |
# | `format("bookkeeper")` reads ledgers from the bookies | Pulsar's Spark connector reads through brokers, as a consumer; Pulsar SQL (Presto) read ledgers as here |
# | offset: last MessageID given, by partition | Kafka's source: the *next* offset, by partition, in the same place of the same files |
# | `maxRowsPerTrigger`, `failOnDataLoss` | `maxOffsetsPerTrigger`, `failOnDataLoss` in Kafka's source |
# | a ledger that retention has removed | the query fails with the ledger's id, unless `failOnDataLoss` is false |
# | `explicit_lac_interval_ms` | `explicitLacInterval` of BookKeeper's client: 0, which is off |
#
# - **Retention does not know about checkpoints.** A cursor holds back the removal of ledgers; a query
#   that reads ledgers has none. If it is down for longer than retention keeps them, they are gone.
# - **An entry id of -1** is a legal position: before the first entry of a ledger (Pulsar #1277).
#   It is the offset of a partition in which nothing is stored yet.
# - **Ids that seem to go back** (#20094): after a failure a topic goes on in a new ledger, whose entries
#   begin at 0. The pair of ledger and entry still grows; an entry id alone never says which is newer.

# %% [markdown]
# ## Questions
#
# <details><summary>Why is the offset written before the rows are read, and not afterwards?</summary>
#
# So that a repeated batch has the same rows. If its end were only known afterwards, it might have more
# rows the second time, and no sink could tell which of them it already has.
# </details>
#
# <details><summary>The checkpoint is deleted and the query started again. What is in the file sink
# then?</summary>
#
# The query begins at `start`, by default with the topic's first message, and numbers its batches from 0
# again. The sink has a list of batches with these numbers and leaves them out: new rows may be missing.
# Sink and checkpoint belong together.
# </details>
#
# <details><summary>How many messages does the query lag behind?</summary>
#
# Subtracting two ids does not say. The entries can be counted from the ledgers' metadata; messages can
# only be counted by reading the batches, or by an index that the broker adds to each entry.
# </details>
#
# <details><summary>Why does the gap detector keep the furthest place and not the last one?</summary>
#
# An entry that comes again would move the last place back, and the next new entry would look like a gap.
# </details>
#
# **Next:** [14 break the protocol](14-break-the-protocol.ipynb): how do you find a bug that appears once
# in a thousand runs?

# %%
spark.stop()
await cluster.stop()
folder.cleanup()
