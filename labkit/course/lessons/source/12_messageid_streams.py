# %% [markdown]
# # 12 · What do a stream's MessageIDs tell?
#
# A MessageID is four numbers. A consumer sees a long list of them and nothing else: no bookie, no
# ledger, no failure. Here are more than 120,000 from a real run, and Spark to question them.
#
# **At the end you can**
# - say from a list of ids alone whether a reader lost messages, got some twice or out of order,
# - write these three questions as Spark jobs that stay right with partitions, batches and rollovers,
# - name what the ids do *not* tell, and where to find it instead.
#
# **Takes** about 105 minutes. **Needs** Spark; with `source = "live"` a cluster of real processes too. **After** lesson 11.
#
# **The rules.**
#
# | | |
# |---|---|
# | **M1** | A MessageID has four parts: `ledgerId:entryId:partition:batchIndex` |
# | **M2** | The partition is -1 if the topic has no partitions |
# | **M3** | The batch index is -1 if the message was not sent in a batch; a batch of one has index 0 |
# | **M4** | A partition is a chain of ledgers. Only the newest is open, and no other partition writes to it |
# | **M5** | Within a ledger, entry ids count up from 0 without a hole |
# | **M6** | When the open ledger is full or old enough, or an add to it fails, the next messages go to a new one |
# | **M7** | In batches, one entry carries several messages; otherwise one entry is one message. The producer decides |
#
# *The lesson reads a recorded run, so it needs no cluster; `source = "live"` records a new one.*

# %% tags=["parameters"]
source = "sample"  # or "live": start a cluster, publish to it, read back
message_count = 200_000  # sample: messages to read at most; live: messages to publish
swaps = 4  # faults that are planted later: messages that change places,
redeliveries = 3  # messages that come twice,
lost_entries = 2  # and entries that never come

# %%
import time

import pyarrow.parquet as pq
from pyspark.sql import Window
from pyspark.sql import functions as fn

from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.views.spark import charts, flights, ledgers, publishing, streams, trace_charts, traces
from labkit.views.spark.faults import plant_faults
from labkit.views.spark.picture import message_id_picture
from labkit.views.spark.session import spark_session

parameters("12", globals())

# %% [markdown]
# The messages are flights that left New York in 2013. They were published to topics on a cluster of
# five bookies and read back by a consumer. Nothing below looks at a payload.
#
# | topic | how it was published | the next ledger begins |
# |---|---|---|
# | `flights-paced` | three weeks of January at a day a second, in batches of at most 100 messages or 20 ms | after 4 seconds |
# | `flights-single` | as fast as possible, not in batches | at 1,000 entries |
# | `flights-batched` | as fast as possible, in batches of at most 100 messages or 10 ms | at 50 entries |

# %%
assert source in ("sample", "live"), f"source is {source!r}; it may be 'sample' or 'live'"

from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.worlds.live.processes.cluster import LocalCluster


# %%
async def record():
    async with LocalCluster(bookies=5, traced=False) as cluster:
        client = await cluster.connect()
        config = ManagedLedgerConfig(max_entries_per_ledger=50)
        topic = await Topic.create(client, "flights", partitions=3, config=config)
        producer = topic.producer("timetable", batching=Batching(max_messages=20))
        await flights.publish(producer, flights.flight_events(message_count))
        await producer.close()
        messages = await flights.collect(topic.consumer(), "flights")
        await topic.close()
        chains = await flights.ledger_chains(topic, "flights", range(3))
        return messages, chains, await flights.segments(client, chains)


# %%
if source == "sample":
    messages = pq.read_table(flights.SAMPLE)[:message_count]
    chains, segments = map(pq.read_table, (flights.SAMPLE_LEDGERS, flights.SAMPLE_SEGMENTS))
else:
    messages, chains, segments = await record()

messages.select(["topic", "ledger", "entry", "partition", "batch_index", "key"])[:5].to_pandas()

# %% [markdown]
# ## A picture first
#
# One message from the middle of the stream, and where its id leads: the partition selects the chain,
# the ledger a link of it, the entry a place in the ledger, and the batch index a message inside the
# entry. A dashed ledger is the open one of its partition.

# %%
message_id_picture(messages, seq=messages.num_rows // 2)

# %% [markdown]
# Each part has a different origin, and only all four together name one message.
#
# **Predict.** Two messages of one topic have the ids `39:17:2:31` and `41:3:0:0`. Which was stored
# first: `"39"`, `"41"`, or do the ids not say (`"unknown"`)?

# %%
my_answer = None
# solution
my_answer = "unknown"
# end
predict("which of the two was stored first", my_answer)

# %%
compare("which of the two was stored first", "unknown")

# %% [markdown]
# They lie in partitions 2 and 0, and each partition has its own chain. Ledger ids come from one counter
# for the whole cluster, so ledger 41 was *created* after 39; but both may be open at once. Ids can be
# compared only within one partition: labkit's `MessageId` refuses to compare others.

# %% [markdown]
# ## Start Spark
#
# Spark runs in a separate JVM and takes 5 to 15 seconds to start. It runs on this machine unless the
# environment names a cluster (`SPARK_MASTER=spark://...` or `SPARK_REMOTE=sc://...`). The cells below
# stay the same. (Java's output at its start is not compared.)

# %% tags=["nbval-ignore-output"]
spark = spark_session("12-messageid-streams")

# %%
stream = spark.createDataFrame(messages).cache()
stream.groupBy("topic").agg(
    fn.count("*").alias("messages"),
    fn.count_distinct("ledger", "entry").alias("entries"),
    fn.count_distinct("ledger").alias("ledgers"),
    fn.count_distinct("partition").alias("partitions"),
).orderBy("topic").toPandas()

# %% [markdown]
# ## 1 · Four numbers from a string
#
# A log has ids as text, and text has a different order: `"10:0:0:-1"` comes before `"9:0:0:-1"`. So the
# first step is to turn them into numbers. `split` and a cast do that inside the JVM; a Python function
# for each row takes four to five times as long, as every row travels to a Python process and back.

# %%
ids = spark.createDataFrame(flights.message_ids(messages[:20_000]))
parsed = streams.parse_message_ids(ids)
parsed.orderBy("seq").limit(3).toPandas()

# %%
wrong = parsed.join(
    stream.select("seq", *streams.ID_PARTS), ["seq", *streams.ID_PARTS], "left_anti"
)
counterexample = wrong.orderBy("seq").limit(1).toPandas()
assert counterexample.empty, f"parsed to other numbers than the client has:\n{counterexample}"
print("Every id has four parts, and they are the four numbers that the client has (M1).")

# %% [markdown]
# **Predict.** Which is the smallest batch index of a producer that does not batch? And of one that does?

# %%
my_smallest = None  # {"no batches": ..., "batches": ...}
# solution
my_smallest = {"no batches": -1, "batches": 0}
# end
predict("smallest batch index", my_smallest)

# %%
kind = fn.when(fn.col("topic") == "flights-single", "no batches").otherwise("batches")
smallest = stream.groupBy(kind.alias("kind")).agg(fn.min("batch_index").alias("least")).collect()
compare("smallest batch index", {row.kind: row.least for row in sorted(smallest, reverse=True)})

# %%
entries = stream.groupBy("topic", "ledger", "entry").agg(
    fn.count("*").alias("messages"), fn.min("batch_index").alias("first_index")
)
entries.where("messages = 1").groupBy("topic", "first_index").count().orderBy("topic").toPandas()

# %% [markdown]
# All these entries hold one message. A batch with a single message is still a batch: its message has
# index 0. So -1 does not mean "alone", it means "this message *is* the entry" (M3). Ids of the two kinds
# do not mix within one entry:

# %%
mixed = stream.groupBy("ledger", "entry").agg(fn.collect_set("batch_index").alias("indexes"))
mixed = mixed.where("array_contains(indexes, -1) and size(indexes) > 1").limit(1).toPandas()
assert mixed.empty, f"an entry is a batch and no batch at once (M3):\n{mixed}"
print("No entry has both -1 and other batch indexes (M3).")

# %% [markdown]
# ## 2 · A partition is a chain of ledgers
#
# One bar for each ledger, from the first to the last message that was published to it. Can two bars of
# one partition overlap? Can two bars of different partitions? (Charts have internal names that differ
# from run to run, so tests of this notebook do not compare them.)

# %% tags=["nbval-ignore-output"]
shown_topic = messages["topic"][-1].as_py()
shown = stream.where(fn.col("topic") == shown_topic)
charts.ledger_chains(ledgers.messages_per_ledger(shown).toPandas())

# %% [markdown]
# Never within a partition: the next ledger begins when the last entry of the one before is confirmed
# and that ledger is closed. Different partitions know nothing of each other.

# %%
shared = ledgers.shared_ledgers(stream).limit(1).toPandas()
assert shared.empty, f"a ledger holds messages of two streams (M4):\n{shared}"
print("Every ledger belongs to one partition of one topic (M4).")

# %% [markdown]
# ## 3 · Entry ids climb and begin again
#
# A line for each ledger: the ids of its entries, in the order of arrival. Where one ends and the next
# begins at 0, the partition rolled over. The lines have steps because the consumer alternates between
# partitions: it receives a thousand messages of one, then of the next.

# %% tags=["nbval-ignore-output"]
charts.entry_ids(publishing.batch_sizes(shown).toPandas())

# %% [markdown]
# ## Exercise 1: out of order
#
# A reader should get a partition's messages in the order of their ids. A message that arrives *right
# after one of its stream with a greater id* breaks that. `seq` counts arrivals; a stream is one
# partition of one topic. Write the job: it gets the messages and returns the rows that are out of order.


# %%
# solution
def out_of_order(messages):
    place = fn.struct("ledger", "entry", "batch_index")
    arrival = Window.partitionBy("topic", "partition").orderBy("seq")
    compared = messages.withColumn("place", place)
    compared = compared.withColumn("before", fn.lag("place").over(arrival))
    return compared.where("place < before")


# learner
# def out_of_order(messages):
#     """The rows that arrived right after one of their stream with a greater id."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streams.order", out_of_order)

# %% [markdown]
# Stuck? `hint("streams.order")` gives three hints, one after the other.
#
# This one compares each message with the one that arrived before it, whatever it belongs to:


# %% tags=["refused"]
def of_no_stream(messages):
    place = fn.struct("ledger", "entry", "batch_index")
    arrival = Window.partitionBy(fn.lit(0)).orderBy("seq")
    compared = messages.withColumn("place", place)
    return compared.withColumn("before", fn.lag("place").over(arrival)).where("place < before")


check("streams.order", of_no_stream, must_pass=False)

# %% [markdown]
# A struct compares field by field, as ids do. That is clear but slow: every comparison looks at three
# fields. An id packed into one number compares in one step; with five million ids, the struct took 22
# to 45 percent longer.
#
# ```
#  63 bits:   ledger (23)  |  entry (28)  |  batch index + 1 (12)
# ```
#
# The + 1 makes room for -1 and keeps the order. The price is a limit on each part; `with_position`
# checks it and names the id that does not fit. Ledger ids of a cluster that has run for years pass
# 2^23 = 8,388,608: then the struct is right and the packing is not.

# %%
packed = streams.with_position(stream).select("ledger", "entry", "batch_index", "position")
packed.orderBy("position").limit(3).toPandas()

# %%
found = streams.order_violations(stream).orderBy("seq").limit(1).toPandas()
assert found.empty, f"this message arrived after one with a greater id:\n{found}"
print("Every partition arrived in the order of its ids.")

# %% [markdown]
# ## 4 · Break it
#
# The run was healthy, so all answers so far were "none", and a job that finds nothing at all would also
# say that. Plant faults whose number you know:
#
# - a **swap**: two messages that follow each other change places,
# - a **redelivery**: a message comes a second time, five messages later,
# - a **lost entry**: none of its messages arrives.
#
# **Predict** what the report will count, with the numbers from the parameters above.

# %%
my_counts = None  # {"order_violations": ..., "duplicates": ..., "missing_entries": ...}
# solution
my_counts = {
    "order_violations": swaps + redeliveries,
    "duplicates": redeliveries,
    "missing_entries": lost_entries,
}
# end
predict("what the report counts", my_counts)

# %%
planted = {"swaps": swaps, "redeliveries": redeliveries, "lost_entries": lost_entries}
faulty_messages = plant_faults(messages, **planted, seed=12)
faulty = spark.createDataFrame(faulty_messages).cache()
report = streams.stream_report(faulty).drop("batch_sizes").orderBy("topic", "partition").toPandas()
report

# %%
faults = ["order_violations", "duplicates", "missing_entries"]
compare("what the report counts", {fault: int(report[fault].sum()) for fault in faults})

# %%
counted = report[faults].sum().tolist()
expected = [swaps + redeliveries, redeliveries, lost_entries]
assert counted == expected, f"{faults}: {expected} planted, {counted} found"
print("All that was planted was found, and nothing else.")

# %% [markdown]
# Each swap breaks the order once. So does each redelivery: the repeated id is smaller than the one
# before it, and it is also a duplicate. A lost entry does not break the order: the ids that do arrive
# still grow.
#
# `stream_report` asks all three questions at once. All its windows partition by stream, so the messages
# are shuffled once; they are sorted by arrival, and only one row per entry is sorted by id. The single
# jobs return the rows:

# %%
streams.order_violations(faulty).orderBy("seq").limit(3).toPandas()

# %% [markdown]
# ## Exercise 2: holes
#
# How many entries are missing in each ledger? Return one row for each ledger with holes: `topic`,
# `partition`, `ledger` and `missing`. A reader may have begun in the middle of the first ledger of its
# stream; a later ledger must be there from entry 0 on. Ids do not show what is missing at a ledger's
# *end*.


# %%
# solution
def holes(messages):
    arrived = messages.groupBy("topic", "partition", "ledger").agg(
        fn.min("entry").alias("first"),
        fn.max("entry").alias("last"),
        fn.count_distinct("entry").alias("entries"),
    )
    chain = Window.partitionBy("topic", "partition").orderBy("ledger")
    begin = fn.when(fn.row_number().over(chain) == 1, fn.col("first")).otherwise(0)
    arrived = arrived.withColumn("missing", fn.col("last") + 1 - begin - fn.col("entries"))
    return arrived.where("missing > 0")


# learner
# def holes(messages):
#     """For each ledger with holes: topic, partition, ledger, missing."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streams.holes", holes)

# %% [markdown]
# labkit's own job returns the ranges of missing entries:

# %%
streams.missing_entries(faulty).orderBy("ledger").toPandas()

# %% [markdown]
# ### What the ids cannot tell
#
# **Predict.** Now a ledger loses its *last* entry. How many holes does `missing_entries` find?

# %%
my_holes = None
# solution
my_holes = 0
# end
predict("holes after a lost end", my_holes)

# %%
ledger, count = ledgers.rollovers(stream).orderBy("ledger").select("ledger", "entries").first()
is_last = (fn.col("ledger") == ledger) & (fn.col("entry") == count - 1)
shortened = stream.where(~is_last)
assert stream.where(is_last).count() > 0, "nothing was taken away: choose an entry that exists"
compare("holes after a lost end", streams.missing_entries(shortened).count())

# %% [markdown]
# A ledger that ends early looks like a shorter ledger. The ledger's metadata shows the difference: when
# a ledger is closed, its last entry id is written to ZooKeeper.

# %%
closed = spark.createDataFrame(chains)
ledgers.missing_ends(shortened, closed).where(fn.col("ledger") == ledger).toPandas()

# %% [markdown]
# ## 5 · From one ledger to the next, and why
#
# Ids show *that* a stream continued in another ledger. To find out *why*, compare the metadata with the
# topic's configuration.
#
# **Predict.** One topic of the recorded run rolls over by age, the others by a number of entries. In
# which topic does the number of entries in a ledger vary?

# %%
my_topic = None
# solution
my_topic = "flights-paced" if source == "sample" else "none"
# end
predict("numbers of entries vary in", my_topic)

# %%
lengths = ledgers.rollovers(stream).groupBy("topic").agg(fn.collect_set("entries").alias("entries"))
varying = [row.topic for row in lengths.where("size(entries) > 1").collect()]
compare("numbers of entries vary in", ", ".join(varying) or "none")

# %%
told = {"flights-paced": (None, 4_000), "flights-single": (1_000, None)}
told |= {"flights-batched": (50, None), "flights": (50, None)}
limits = spark.createDataFrame(
    [(topic, entries, None, age_ms) for topic, (entries, age_ms) in told.items()],
    "topic string, max_entries long, max_size_bytes long, max_age_ms long",
)
reasons = ledgers.rollover_reasons(stream, closed, limits)
reasons.groupBy("topic", "reason").agg(
    fn.count("*").alias("rollovers"),
    fn.min("entry_count").alias("fewest_entries"),
    fn.max("entry_count").alias("most_entries"),
).orderBy("topic").toPandas()

# %% [markdown]
# A ledger that was *neither full nor old* would be the interesting one: an add failed, or the topic
# moved to another broker, which closed the ledger. Ids keep growing even then, because the chain is a
# list in one node of the metadata store, and the new ledger gets a greater id from the counter. A stream
# may look as if it went back (Pulsar #20094); the order of the list counts, not the clock.

# %% [markdown]
# ## 6 · Batches: the producer decides
#
# The greatest batch index of an entry, plus one, is the size of its batch. Two topics were sent with the
# same limit of 100 messages. Which of them has the fuller batches, and why?

# %% tags=["nbval-ignore-output"]
sizes = publishing.batch_size_distribution(stream).withColumnRenamed("entries", "count")
charts.batch_histogram(sizes.orderBy("topic", "batch_size").toPandas())

# %% [markdown]
# The topic that was published as fast as possible: a batch is full before its time is up. At one day of
# flights a second, messages come slowly, and the time limit closes the batch first. At night hardly any
# flights leave, so there are batches of one.

# %%
torn = publishing.batch_sizes(stream).where("arrived != batch_size").limit(1).toPandas()
assert torn.empty, f"messages inside a batch are missing:\n{torn}"
seen = stream.where("batch_index >= 0").groupBy("ledger", "entry")
seen = seen.agg(fn.max("batch_size").alias("told"), (fn.max("batch_index") + 1).alias("seen"))
cut = seen.where("told != seen").limit(1).toPandas()
assert cut.empty, f"a batch says it has more messages than arrived:\n{cut}"
print("Every batch is complete, and as large as its producer said (M7).")

# %% [markdown]
# The producer chose the partition, too, by a hash of the key (the airline). All messages of a key must
# lie in one partition of a topic, or their order would be lost:

# %%
scattered = stream.groupBy("topic", "key").agg(fn.count_distinct("partition").alias("partitions"))
assert scattered.where("partitions > 1").count() == 0, "a key is in two partitions"
print("Every key has one partition.")

# %% [markdown]
# ## 7 · When was it published, and when could it be read?
#
# The producer's clock says when each entry was made. A point stands for 100 ms. The paced topic shows
# days, nights and weekends; the others are over in two seconds.

# %% tags=["nbval-ignore-output"]
charts.publish_rate(publishing.publish_rate(stream, bucket_ms=100).toPandas())

# %% [markdown]
# The consumer read the paced topic while it was published; it read the others afterwards, so their
# messages waited. How long did a message of the paced topic take to be stored on two bookies, confirmed,
# and delivered to the reader?

# %% tags=["nbval-ignore-output"]
followed = stream.where(fn.col("topic") == messages["topic"][0].as_py())
charts.latencies(publishing.latency_distribution(followed, bucket_ms=1).toPandas())

# %%
publishing.visible_latency(stream).orderBy("topic").toPandas() if source == "sample" else None

# %% [markdown]
# Here producer and consumer ran on one machine. With two clocks, the difference of two times says as
# much about the clocks as about the system: a latency below 0 is a clock, not a miracle.

# %% [markdown]
# ## 8 · Addresses, not counters
#
# Users often ask: "give me the last 1,000 messages", "go back 10,000". With Kafka's offsets that is a
# subtraction. Here it is not: no number is 1,000 less than `39:17:2:31`. The producer decides how many
# messages an entry has, and the broker how many entries a ledger has. To go back you have to count:

# %%
newest_first = Window.partitionBy("topic", "partition").orderBy(fn.desc("position"))
counted_back = streams.with_position(stream).withColumn("back", fn.row_number().over(newest_first))
text = fn.concat_ws(":", *streams.ID_PARTS)
counted_back.where("back in (1, 1000)").groupBy("topic", "partition").agg(
    fn.max(fn.when(fn.col("back") == 1, text)).alias("newest"),
    fn.max(fn.when(fn.col("back") == 1000, text)).alias("a_thousand_back"),
).orderBy("topic", "partition").toPandas()

# %% [markdown]
# In one topic the same step is ten entries, in another a thousand, and it may lead into another ledger.
# So Pulsar can seek to an id or to a time, but not by a number of messages. (What can count is an index
# that the broker adds to each entry, its *broker entry metadata*.)

# %% [markdown]
# ## Exercise 3: stored twice
#
# An entry was stored, but the answer got lost. The producer sent its messages again, and they were
# stored again, under *another* id. `duplicates` finds nothing, since no id came twice. But every message
# carries its producer's name and the number that the producer gave it, `sequence_id`; each producer has
# a separate count in each partition of a topic. Find what was stored more than once: one row of `topic`,
# `partition`, `producer`, `sequence_id` for each.


# %%
# solution
def stored_twice(messages):
    copies = messages.groupBy("topic", "partition", "producer", "sequence_id").agg(
        fn.count_distinct("ledger", "entry", "batch_index").alias("copies")
    )
    return copies.where("copies > 1")


# learner
# def stored_twice(messages):
#     """What was sent once and stored under several ids."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streams.stored_twice", stored_twice)

# %% [markdown]
# With deduplication on, the broker asks this question before it stores: it remembers the highest
# `sequence_id` of each producer, and stores neither that one nor a lower one again.

# %% [markdown]
# ## 9 · Which bookies have it?
#
# The ids do not say. The ledgers' metadata names an ensemble for each segment, and entry `e` is on its
# places `e % E`, `(e + 1) % E`, … The bookies of a new ledger are chosen at random:

# %% tags=["nbval-ignore-output"]
charts.copies(ledgers.copies_per_bookie(spark.createDataFrame(segments)).toPandas())

# %% [markdown]
# The dotted line is an equal share. A random choice is uneven with so few ledgers: whole ledgers are
# placed, not entries. Large ledgers make it worse, and rolling over makes it better.

# %% [markdown]
# ## 10 · A bookie is lost
#
# Another recorded run, this time its *trace*: every event of five bookies, a topic's owner and a second
# client. `bookie-2` is killed for good in mid-stream. How many ledgers lack copies, from when to when?
# Which bookies make the copies?

# %% tags=["nbval-ignore-output"]
events = spark.createDataFrame(pq.read_table(flights.SAMPLE_TRACE)).cache()
killed_us = events.where("kind = 'node.killed'").agg(fn.min("time_us")).first()[0]
marks = traces.underreplicated_ledgers(events).toPandas()
trace_charts.repair(marks, traces.copies_made(events).toPandas(), killed_us)

# %% [markdown]
# For some seconds this goes unnoticed: the dead bookie's session still lasts. Then the auditor marks all its
# ledgers at once, and each worker takes one. (They were configured to copy slowly.)

# %%
since_kill = [
    fn.round((fn.col(name) - killed_us) / 1e6, 2).alias(name.replace("_us", "_s"))
    for name in ("marked_us", "started_us", "done_us")
]
repairs = traces.repairs(events).select("ledger", *since_kill, "worker", "copies")
repairs.orderBy("ledger").toPandas()

# %%
lives = traces.ledger_life_cycles(events).cache()
never_repaired = lives.where("marked_us is not null and repaired_us is null").count()
assert never_repaired == 0, f"{never_repaired} ledgers are still short of copies"
lives.groupBy("state").count().orderBy("state").toPandas()

# %% tags=["nbval-ignore-output"]
trace_charts.life_cycles(lives.toPandas())

# %% [markdown]
# Ledger 0 was taken from its writer by another client (fenced, recovered, closed), ledger 1 was deleted.
# The others are two chains, one after the other. Where a topic's owner began a ledger, its trace says why:

# %%
traces.rollovers_told(events).groupBy("cause").count().orderBy("cause").toPandas()

# %% [markdown]
# No ledger failed, although a bookie of two of them died: their writer replaced it in the ensemble
# (lesson 07) and went on. So the ids of that stream show nothing of it.

# %% [markdown]
# ## 11 · Is Spark worth it here?
#
# The same question to pandas, on the same rows in memory. (Times differ from run to run and are not
# compared.)


# %% tags=["nbval-ignore-output"]
def violations_in_pandas(frame) -> int:
    position = frame.ledger * 2**40 + frame.entry * 2**12 + frame.batch_index + 1
    earlier = position.groupby([frame.topic, frame.partition]).shift()
    return int((position < earlier).sum())


frame = faulty_messages.to_pandas()
for ask in (lambda: violations_in_pandas(frame), lambda: streams.order_violations(faulty).count()):
    start = time.perf_counter()
    answer = ask()
    print(f"{answer} violations in {time.perf_counter() - start:.2f} s")

# %% [markdown]
# The first line is pandas, the second Spark. At this size pandas wins by far, and Spark's start is not
# even counted. Every Spark query costs some tenths of a second before it looks at a row; with five
# million ids, DuckDB on the same two cores was still four to five times faster. Spark is here because the
# same job also runs where the ids do not fit into one machine: nothing above depends on one machine. In
# lesson 13 Spark reads the ledgers themselves.

# %% [markdown]
# <details><summary>Why do the ledger ids of one partition have holes, if entry ids must
# not?</summary>
#
# Ledger ids come from one counter for the whole cluster. The other partitions and topics (and the
# cluster's own ledgers) take ids from it in between.
# </details>
#
# ## What the real system does
#
# - **Printing.** Java prints `ledger:entry:partition` and appends the batch index only for a message of a
#   batch. The Python client prints `(ledger,entry,partition,batchIndex)`. The four numbers are the same.
# - **Who assigns the parts.** The ledger id comes from ZooKeeper, the entry id from the ledger's single
#   writer, the broker. The producer gets *one* receipt for a batch, with ledger and entry, and numbers
#   the messages of the batch itself. Consumers find the same indexes, because both count from 0. Pulsar
#   does not promise that ids are unique this way: they are not a public API (Pulsar #18835).
# - **Rollover.** `managedLedgerMaxEntriesPerLedger` (50,000), `managedLedgerMaxSizePerLedgerMbytes`
#   (2048), `managedLedgerMaxLedgerRolloverTimeMinutes` (240), but never before
#   `managedLedgerMinLedgerRolloverTimeMinutes` (10): a busy partition passes 50,000 entries by far before
#   its ten minutes are over. The code is `ManagedLedgerImpl`.
# - **The chain, with its ends.** `pulsar-admin topics stats-internal` lists a partition's ledgers with
#   their entries: what the ids alone cannot tell.
# - **Going back by a number** is a frequent request (#6523, #13160, #9038); the existing command counts
#   *entries* (`examine-messages`), which are not messages where there are batches.
# - **A known defect.** An entry was stored and its answer lost; the broker wrote it again to the next
#   ledger, and the copies had different ids (Pulsar #7490). Exercise 3 finds them.

# %% [markdown]
# ## Questions
#
# <details><summary>A reader sees entry 3 of ledger 12 first, and then 4, 5, 6. Are entries 0 to 2
# lost?</summary>
#
# Not necessarily: the reader may have subscribed there. In any later ledger of the same stream, a start
# above 0 is a hole.
# </details>
#
# <details><summary>A message inside a batch is missing, but others of its entry arrived. Which job finds
# it?</summary>
#
# `batch_sizes`: `arrived` is smaller than `batch_size`. But if the *last* message of the batch is
# missing, the greatest index is smaller too. Then only the size that the producer wrote into the entry
# shows it, as in section 6: the same difference as between a hole and a lost end of a ledger.
# </details>
#
# <details><summary><code>duplicates</code> groups by id, <code>stream_report</code> subtracts the ids
# that differ from the messages that arrived. When do they count differently?</summary>
#
# When a message comes three times. Grouping finds one id with three arrivals, the difference is two
# repetitions.
# </details>
#
# <details><summary>Is <code>39:17:2:-1</code> smaller than <code>39:17:2:0</code>?</summary>
#
# As numbers, yes; for messages the question does not arise: an entry is either one message (-1) or a
# batch (0 and up). Where ids of both kinds meet, as when a whole entry is acknowledged, -1 stands for
# the entry.
# </details>
#
# **Next:** [13 streaming from ledgers](13-streaming.ipynb): a query that reads each message once, while
# bookies die.

# %%
spark.stop()  # ends the session; its JVM ends with the notebook's kernel
