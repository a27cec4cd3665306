# %% [markdown]
# # 12 · What do a stream's MessageIDs tell you?
#
# A MessageID consists of four numbers. A consumer sees a long list of MessageIDs, but it does not see
# bookies, ledgers or failures. In this lesson, you use Spark to analyse more than 120,000 MessageIDs from a
# real run.
#
# **At the end you can**
# - tell from a list of ids alone whether a reader lost messages, or received messages twice or out of
#   order,
# - write these three checks as Spark jobs that handle partitions, batches and rollovers,
# - say what the ids do *not* tell you, and where to look instead.
#
# **Takes** about 105 minutes. **Needs** Spark, and with `source = "live"` also a cluster of real processes.
# **Prerequisite:** lesson 11.
#
# **The rules.**
#
# | | |
# |---|---|
# | **M1** | A MessageID has four parts: `ledgerId:entryId:partition:batchIndex` |
# | **M2** | The partition is -1 if the topic has no partitions |
# | **M3** | The batch index is the position of a message in its batch (for messages without a batch, see section 1) |
# | **M4** | A partition is a chain of ledgers. Only the newest ledger is open, and only this partition writes to it |
# | **M5** | Within a ledger, entry ids count up from 0 without holes |
# | **M6** | When the open ledger is full or old enough, or an add to it fails, the next messages are stored in a new ledger |
# | **M7** | With batching, an entry can contain several messages. Without batching, an entry is one message. The producer decides |
#
# *The lesson reads a recorded run, so it does not need a cluster. With `source = "live"`, it records a new
# run.*

# %% tags=["parameters"]
source = "sample"  # or "live": start a cluster, publish to it, read back
message_count = 200_000  # sample: maximum number of messages to read; live: messages to publish
swaps = 4  # faults that you plant later: pairs of swapped messages,
redeliveries = 3  # messages that arrive twice,
lost_entries = 2  # and entries that never arrive

# %%
from pyspark.sql import Window
from pyspark.sql import functions as fn

from labkit.course.lessons import (
    causes_of_rollovers,
    charts,
    check,
    compare,
    entries_of_both_kinds,
    entries_of_one_message,
    faults_in,
    flights,
    full_batches,
    hint,
    ids_parsed_wrong,
    incomplete_batches,
    keys_in_two_partitions,
    ledgers,
    load_run,
    message_id_picture,
    newest_and_a_thousand_back,
    parameters,
    predict,
    publishing,
    recorded_trace,
    repair_chart,
    repairs_since_kill,
    rollovers_by_reason,
    smallest_batch_indexes,
    spark_session,
    streams,
    timed,
    topics_in,
    topics_with_varying_ledgers,
    trace_charts,
    traces,
    violations_in_pandas,
    with_faults,
    without_a_last_entry,
    without_exception,
)

parameters("12", globals())

# %% [markdown]
# Each message describes a flight that departed from New York in 2013. The messages were published to topics
# on a cluster of five bookies, and a consumer read them back. The payloads do not matter here.
#
# | topic | how it was published | rollover |
# |---|---|---|
# | `flights-paced` | three weeks of January, one day per second, in batches of up to 100 messages or 20 ms | after 4 seconds |
# | `flights-single` | as fast as possible, without batching | at 1,000 entries |
# | `flights-batched` | as fast as possible, in batches of up to 100 messages or 10 ms | at 50 entries |

# %%
messages, chains, segments = await load_run(source, message_count)
messages.select(["topic", "ledger", "entry", "partition", "batch_index", "key"])[:5].to_pandas()

# %% [markdown]
# ## A picture first
#
# The picture shows how to get from the id of a message, here one from the middle of the stream, to the
# message. The partition selects the chain, the ledger id selects a ledger in the chain, the entry id
# selects an entry in the ledger, and the batch index selects a message in the entry. The partition's open
# ledger is dashed.

# %%
message_id_picture(messages, seq=messages.num_rows // 2)

# %% [markdown]
# Each part has a different origin. You need all four parts to identify a message.
#
# **Predict.** Two messages of one topic have the ids `39:17:2:31` and `41:3:0:0`. Which one was stored
# first, `"39"` or `"41"`? Or is it impossible to tell from the ids (`"unknown"`)?

# %%
my_answer = None
# solution
my_answer = "unknown"
# end
predict("which of the two was stored first", my_answer)

# %%
compare("which of the two was stored first", "unknown")

# %% [markdown]
# The messages are in partitions 2 and 0, and each partition has a chain of its own. Ledger ids come from
# one counter for the whole cluster, so ledger 41 was *created* after ledger 39, but both may be open at the
# same time. You can compare ids only within a partition. If you try to compare ids of different partitions,
# labkit's `MessageId` raises an error.

# %% [markdown]
# ## Start Spark
#
# Spark runs in a separate JVM and takes 5 to 15 seconds to start. It runs on this machine unless an
# environment variable selects a cluster (`SPARK_MASTER=spark://...` or `SPARK_REMOTE=sc://...`). The cells
# below work either way. (Tests of this notebook do not compare Java's startup output.)

# %% tags=["nbval-ignore-output"]
spark = spark_session("12-messageid-streams")

# %%
stream = spark.createDataFrame(messages).cache()
topics_in(stream)

# %% [markdown]
# ## 1 · Four numbers from a string
#
# Logs contain ids as text, and text sorts differently: `"10:0:0:-1"` comes before `"9:0:0:-1"`. So the
# first step is to turn the ids into numbers. `split` and a cast do this inside the JVM. A Python function
# would take four to five times as long, because Spark would have to send every row to a Python process and
# back.

# %%
parsed = streams.parse_message_ids(spark.createDataFrame(flights.message_ids(messages[:20_000])))
parsed.orderBy("seq").limit(3).toPandas()

# %%
rule = "Every id has four parts, which are the client's four numbers (M1)."
print(without_exception(rule, ids_parsed_wrong(parsed, stream)))

# %% [markdown]
# **Predict.** What is the smallest batch index from a producer that does not batch? And from a producer
# that does?

# %%
my_smallest = None  # {"no batches": ..., "batches": ...}
# solution
my_smallest = {"no batches": -1, "batches": 0}
# end
predict("smallest batch index", my_smallest)

# %%
compare("smallest batch index", smallest_batch_indexes(stream))

# %%
entries_of_one_message(stream)

# %% [markdown]
# Each of these entries contains one message. But a batch with a single message is still a batch, and its
# message has index 0. So -1 does not mean "alone". It means "this message *is* the entry" (M3). An entry
# never has both kinds of ids:

# %%
rule = "No entry has both -1 and other batch indexes (M3)."
print(without_exception(rule, entries_of_both_kinds(stream)))

# %% [markdown]
# ## 2 · A partition is a chain of ledgers
#
# Each bar is a ledger. It extends from the first to the last message that was published to the ledger. Can
# two bars of the same partition overlap? What about two bars of different partitions? (Charts have internal
# names that vary from run to run, so tests of this notebook do not compare them.)

# %% tags=["nbval-ignore-output"]
shown = stream.where(fn.col("topic") == messages["topic"][-1].as_py())
charts.ledger_chains(ledgers.messages_per_ledger(shown).toPandas())

# %% [markdown]
# Bars of the same partition never overlap. A ledger starts only after the last entry of the previous ledger
# has been confirmed and the previous ledger has been closed. Different partitions are independent of each
# other.

# %%
rule = "Every ledger belongs to one partition of one topic (M4)."
print(without_exception(rule, ledgers.shared_ledgers(stream)))

# %% [markdown]
# ## 3 · Entry ids increase and start over
#
# Each line shows the entry ids of one ledger, in the order of arrival. Where one line ends and the next
# starts at 0, the partition rolled over to a new ledger. The lines have steps because the consumer
# alternates between partitions. It receives a thousand messages from one partition, then a thousand from
# the next.

# %% tags=["nbval-ignore-output"]
charts.entry_ids(publishing.batch_sizes(shown).toPandas())

# %% [markdown]
# ## Exercise 1: out of order
#
# A reader should receive a partition's messages in the order of their ids. A message is out of order if it
# arrives *right after a message of the same stream with a greater id*. A stream is one partition of one
# topic, and `seq` numbers the messages in the order of arrival. Write a job that takes the messages and
# returns the rows that are out of order.


# %%
# solution
def out_of_order(messages):
    position = fn.struct("ledger", "entry", "batch_index")
    arrival = Window.partitionBy("topic", "partition").orderBy("seq")
    compared = messages.withColumn("position", position)
    compared = compared.withColumn("previous", fn.lag("position").over(arrival))
    return compared.where("position < previous")


# learner
# def out_of_order(messages):
#     """Return the rows that arrived right after a row of their stream with a greater id."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streams.order", out_of_order)

# %% [markdown]
# Stuck? Call `hint("streams.order")`. It gives you three hints, one at a time.
#
# This job compares each message with the previous arrival, even if the two belong to different streams:


# %% tags=["refused"]
def ignores_streams(messages):
    position = fn.struct("ledger", "entry", "batch_index")
    arrival = Window.partitionBy(fn.lit(0)).orderBy("seq")
    compared = messages.withColumn("position", position)
    compared = compared.withColumn("previous", fn.lag("position").over(arrival))
    return compared.where("position < previous")


check("streams.order", ignores_streams, must_pass=False)

# %% [markdown]
# Structs are compared field by field, like ids. This is clear but slow, because every comparison looks at
# three fields. If you pack each id into a single number, a comparison takes one step. With five million
# ids, the struct took 22 to 45 percent longer.
#
# ```
#  63 bits:   ledger (23)  |  entry (28)  |  batch index + 1 (12)
# ```
#
# The + 1 makes room for -1 and preserves the order. The disadvantage is that each part has a limit.
# `with_position` checks the limits and reports the first id that exceeds them. In a cluster that has been
# running for years, ledger ids can reach 2^23 = 8,388,608. In that case, you need the struct.

# %%
packed = streams.with_position(stream).select("ledger", "entry", "batch_index", "position")
packed.orderBy("position").limit(3).toPandas()

# %%
rule = "Every partition arrived in the order of its ids."
print(without_exception(rule, streams.order_violations(stream).orderBy("seq")))

# %% [markdown]
# ## 4 · Break it
#
# The run was healthy, so all jobs so far have found nothing. But a broken job would also find nothing. To
# test the jobs, plant a known number of faults:
#
# - a **swap**: two consecutive messages are swapped,
# - a **redelivery**: a message arrives again, five messages later,
# - a **lost entry**: none of its messages arrive.
#
# **Predict** what the report will count, using the numbers in the parameters cell.

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
faulty_messages = with_faults(messages, swaps, redeliveries, lost_entries)
faulty = spark.createDataFrame(faulty_messages).cache()
report = streams.stream_report(faulty).drop("batch_sizes").orderBy("topic", "partition").toPandas()
report

# %%
compare("what the report counts", faults_in(report))

# %%
assert [*faults_in(report).values()] == [swaps + redeliveries, redeliveries, lost_entries]
print("All that was planted was found, and nothing else.")

# %% [markdown]
# Each swap breaks the order once. So does each redelivery, because the repeated id is smaller than the
# previous one. The repeated id is also a duplicate. A lost entry does not break the order, because the ids
# that do arrive still increase.
#
# `stream_report` runs all three checks at once. All of its windows are partitioned by stream, so Spark
# shuffles the messages only once. It sorts the messages by arrival, and then only one row per entry by id.
# The individual jobs return the rows:

# %%
streams.order_violations(faulty).orderBy("seq").limit(3).toPandas()

# %% [markdown]
# ## Exercise 2: holes
#
# How many entries are missing in each ledger? Return one row for each ledger with holes: `topic`,
# `partition`, `ledger` and `missing`. A reader may start in the middle of the first ledger of its stream,
# but it must receive every later ledger from entry 0 on. From the ids, you cannot tell which entries are
# missing at the *end* of a ledger.


# %%
# solution
def holes(messages):
    arrived = messages.groupBy("topic", "partition", "ledger").agg(
        fn.min("entry").alias("first"),
        fn.max("entry").alias("last"),
        fn.count_distinct("entry").alias("entries"),
    )
    chain = Window.partitionBy("topic", "partition").orderBy("ledger")
    start = fn.when(fn.row_number().over(chain) == 1, fn.col("first")).otherwise(0)
    arrived = arrived.withColumn("missing", fn.col("last") + 1 - start - fn.col("entries"))
    return arrived.where("missing > 0")


# learner
# def holes(messages):
#     """Return topic, partition, ledger and missing for each ledger with holes."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streams.holes", holes)

# %% [markdown]
# labkit's own job returns the ranges of missing entries:

# %%
streams.missing_entries(faulty).orderBy("ledger").toPandas()

# %% [markdown]
# ### What the ids cannot tell you
#
# **Predict.** Now you drop the *last* entry of a ledger. How many holes does `missing_entries` find?

# %%
my_holes = None
# solution
my_holes = 0
# end
predict("holes without the last entry", my_holes)

# %%
shortened, ledger = without_a_last_entry(stream)
compare("holes without the last entry", streams.missing_entries(shortened).count())

# %% [markdown]
# A ledger without its last entry looks like a shorter ledger. Only the metadata shows the difference,
# because closing a ledger writes its last entry id to ZooKeeper.

# %%
closed = spark.createDataFrame(chains)
ledgers.missing_ends(shortened, closed).where(fn.col("ledger") == ledger).toPandas()

# %% [markdown]
# ## 5 · Why did the ledger roll over?
#
# The ids show *that* a stream continued in another ledger. To find out *why*, compare the metadata with the
# topic's configuration.
#
# **Predict.** In the recorded run, one topic rolls over by age, and the others roll over by number of
# entries. In which topic does the number of entries per ledger vary?

# %%
my_topic = None
# solution
my_topic = "flights-paced" if source == "sample" else "none"
# end
predict("the topic with varying numbers of entries", my_topic)

# %%
compare("the topic with varying numbers of entries", topics_with_varying_ledgers(stream))

# %%
rollovers_by_reason(stream, closed)

# %% [markdown]
# The interesting case would be a ledger that was *neither full nor old*. It would mean that an add failed,
# or that the topic moved to another broker, which closed the ledger. Even then, ids increase, because the
# new ledger gets a larger id from the counter and is added to the end of the chain. The chain is a list in
# a znode. If you sort by time, a stream may seem to go backwards (Pulsar #20094), but only the order of the
# list counts.

# %% [markdown]
# ## 6 · Batches: the producer decides
#
# The size of a batch is the largest batch index of its entry plus one. Two topics were published with the
# same limit of 100 messages. Which of them has fuller batches, and why?

# %% tags=["nbval-ignore-output"]
charts.batch_histogram(full_batches(stream))

# %% [markdown]
# The topic whose messages were published as fast as possible has fuller batches, because its batches fill
# up before the time limit. In the other topic, with one day of flights per second, messages arrive more
# slowly, so the producer sends a batch at the time limit, before the batch is full. Hardly any flights
# depart at night, so some batches contain a single message.

# %%
rule = "Every batch is complete and has the size stated by its producer (M7)."
print(without_exception(rule, incomplete_batches(stream)))

# %% [markdown]
# The producer also chose the partition by hashing the key (the airline). All messages with the same key
# must be in one partition of a topic to keep their order:

# %%
print(without_exception("Every key is in one partition.", keys_in_two_partitions(stream)))

# %% [markdown]
# ## 7 · When were messages published, and when could they be read?
#
# Each entry has a timestamp from the producer's clock. A point in the chart covers 100 ms. In the paced
# topic, you can see days, nights and weekends. The messages of the other topics were all published within
# two seconds.

# %% tags=["nbval-ignore-output"]
charts.publish_rate(publishing.publish_rate(stream, bucket_ms=100).toPandas())

# %% [markdown]
# The consumer read the paced topic while it was being published. It read the other topics afterwards, so
# their messages had to wait. How long did it take to store a message of the paced topic on two bookies,
# confirm it, and deliver it to the reader?

# %% tags=["nbval-ignore-output"]
followed = stream.where(fn.col("topic") == messages["topic"][0].as_py())
charts.latencies(publishing.latency_distribution(followed, bucket_ms=1).toPandas())

# %%
publishing.visible_latency(stream).orderBy("topic").toPandas() if source == "sample" else None

# %% [markdown]
# Here, the producer and the consumer ran on the same machine. If they run on different machines, the
# difference between two timestamps says as much about the clocks as about the system, and latencies can be
# negative.

# %% [markdown]
# ## 8 · Addresses, not counters
#
# Users often ask for the last 1,000 messages, or want to go back by 10,000 messages. With Kafka's offsets,
# you only have to subtract. But you cannot subtract 1,000 from `39:17:2:31`. The producer decides how many
# messages an entry has, and the broker decides how many entries a ledger has. To go back, you have to
# count:

# %%
newest_and_a_thousand_back(stream)

# %% [markdown]
# A thousand messages may be ten entries in one topic and a thousand entries in another, and they may be
# spread over several ledgers. So Pulsar can seek to an id or to a time, but it cannot seek by a number of
# messages. (You can count if you configure the broker to add an index to each entry, the *broker entry
# metadata*.)

# %% [markdown]
# ## Exercise 3: stored twice
#
# An entry was stored, but the receipt was lost. The producer resent its messages, and they were stored
# again, under *different* ids. `duplicates` finds nothing, because no id arrived twice. But every message
# contains the name of its producer and the number that the producer assigned to the message, its
# `sequence_id`. Each producer numbers its messages separately for each partition of a topic. Find the
# messages that were stored more than once. For each of them, return one row with `topic`, `partition`,
# `producer` and `sequence_id`.


# %%
# solution
def stored_twice(messages):
    copies = messages.groupBy("topic", "partition", "producer", "sequence_id").agg(
        fn.count_distinct("ledger", "entry", "batch_index").alias("copies")
    )
    return copies.where("copies > 1")


# learner
# def stored_twice(messages):
#     """Return the messages that were stored under several ids."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("streams.stored_twice", stored_twice)

# %% [markdown]
# If deduplication is enabled, the broker does this check before it stores a message. It remembers the
# highest `sequence_id` of each producer, and does not store a message with that number or a lower one.

# %% [markdown]
# ## 9 · Which bookies have it?
#
# You cannot tell from the ids. The ledgers' metadata lists an ensemble for each segment, and entry `e` is
# stored at the ensemble indices `e % E`, `(e + 1) % E`, … The bookies of a new ledger are chosen at random:

# %% tags=["nbval-ignore-output"]
charts.copies(ledgers.copies_per_bookie(spark.createDataFrame(segments)).toPandas())

# %% [markdown]
# The dotted line marks an equal share. Bookies are chosen for whole ledgers, not for single entries, so
# with only a few ledgers, the shares are uneven. Large ledgers make this worse, and frequent rollovers make
# it better.

# %% [markdown]
# ## 10 · A bookie is lost
#
# This is the *trace* of another recorded run. It contains every event on five bookies, a topic's owner and
# a second client. In the middle of the stream, `b1` is killed and never comes back. How many ledgers lack
# copies, and for how long? Which bookies create the new copies?

# %% tags=["nbval-ignore-output"]
events = spark.createDataFrame(recorded_trace()).cache()
repair_chart(events)

# %% [markdown]
# For a few seconds, nobody notices, because the dead bookie's session has not expired. Then the auditor
# marks all of its ledgers, and each worker repairs one ledger at a time. (In this run, the workers were
# configured to copy slowly.)

# %%
repairs_since_kill(events)

# %%
lives = traces.ledger_life_cycles(events).cache()
never_repaired = lives.where("marked_us is not null and repaired_us is null")
without_exception("Every marked ledger was repaired.", never_repaired)
lives.groupBy("state").count().orderBy("state").toPandas()

# %% tags=["nbval-ignore-output"]
trace_charts.life_cycles(lives.toPandas())

# %% [markdown]
# Another client took over ledger 0 from its writer (fenced, recovered, closed), and ledger 1 was deleted.
# The other ledgers form two chains, one after the other. Whenever a topic's owner started a new ledger, the
# trace recorded why:

# %%
causes_of_rollovers(events)

# %% [markdown]
# No ledger failed, even though two of them used the bookie that died. Their writer replaced it in the
# ensemble (lesson 07) and continued. So the ids of that stream do not show the failure.

# %% [markdown]
# ## 11 · Is Spark worth it here?
#
# Run the same check in pandas, on the same rows in memory. (Timings vary from run to run, so tests do not
# compare them.)

# %% tags=["nbval-ignore-output"]
frame = faulty_messages.to_pandas()
for ask in (lambda: violations_in_pandas(frame), lambda: streams.order_violations(faulty).count()):
    print(timed(ask))

# %% [markdown]
# The first line is for pandas, and the second line is for Spark. With so few rows, pandas is much faster,
# even if you do not count Spark's startup time. Every Spark query takes a few tenths of a second before it
# reads the first row. We measured 5 and 50 million ids on a machine with two cores. Spark took 9 and 5
# times as long as DuckDB, and 10 and 6 times as long as Polars. So if the ids fit on one machine, use
# DuckDB, Polars or pandas. Spark is worth it if one machine is not enough, because the same jobs also run
# on a cluster, or if a query must survive crashes. Even on a cluster, a check of the order needs all ids of
# a partition in one task, so a single huge partition is as slow as before. In lesson 13, Spark reads the
# ledgers themselves.

# %% [markdown]
# <details><summary>Why can the ledger ids of a partition have holes, while entry ids cannot?</summary>
#
# Ledger ids come from one counter for the whole cluster. Other partitions, other topics and the cluster's
# internal ledgers use up ids in between.
# </details>
#
# ## What the real system does
#
# - **Printing.** Java prints `ledger:entry:partition` and appends the batch index only for messages in a
#   batch. The Python client prints `(ledger,entry,partition,batchIndex)`. The four numbers are the same.
# - **Who assigns the parts.** The ledger id comes from ZooKeeper, and the entry id comes from the ledger's
#   only writer, the broker. The producer receives *one* receipt per batch, with ledger and entry, and
#   numbers the messages within the batch itself. Consumers compute the same batch indices, because
#   producers and consumers both count from 0. Pulsar does not guarantee that ids are unique in this way,
#   because they are not a public API (Pulsar #18835).
# - **Rollover.** The limits are `managedLedgerMaxEntriesPerLedger` (50,000),
#   `managedLedgerMaxSizePerLedgerMbytes` (2048) and `managedLedgerMaxLedgerRolloverTimeMinutes` (240). A
#   ledger never rolls over before `managedLedgerMinLedgerRolloverTimeMinutes` (10), and a busy partition
#   reaches 50,000 entries long before the ten minutes are up. The code is in `ManagedLedgerImpl`.
# - **The chain and its ends.** `pulsar-admin topics stats-internal` lists a partition's ledgers and the
#   number of entries in each, which the ids alone do not tell you.
# - **Going back by a number of messages** is a frequent request (#6523, #13160, #9038). The existing
#   command (`examine-messages`) counts *entries*. With batching, an entry is not the same as a message.
# - **A known bug.** An entry was stored, but the response was lost. The broker wrote the entry again to the
#   next ledger, so the two copies had different ids (Pulsar #7490). Exercise 3 finds such copies.

# %% [markdown]
# ## Questions
#
# <details><summary>A reader sees entry 3 of ledger 12 first, and then 4, 5, 6. Are entries 0 to 2
# lost?</summary>
#
# Not necessarily. The reader may have started there. But if any later ledger of the same stream starts
# above 0, entries are missing.
# </details>
#
# <details><summary>A message inside a batch is missing, but other messages of its entry arrived. Which job finds
# it?</summary>
#
# `batch_sizes`: `arrived` is smaller than `batch_size`. But if the *last* message of the batch is missing,
# the largest index is smaller, too. Then you notice it only if you compare with the batch size that the
# producer wrote into the entry, as in section 6. Ledgers are similar: the ids show a hole, but they do not
# show that the end of a ledger is missing.
# </details>
#
# <details><summary><code>duplicates</code> groups by id. <code>stream_report</code> subtracts the number of distinct ids from the number of messages that arrived. When do the results differ?</summary>
#
# They differ when a message arrives three times. Grouping finds one id with three arrivals, while the
# subtraction counts two repetitions.
# </details>
#
# <details><summary>Is <code>39:17:2:-1</code> smaller than <code>39:17:2:0</code>?</summary>
#
# As numbers, yes. For messages, the question does not arise, because an entry is either a single message
# (-1) or a batch (0 and up). If both kinds of ids occur for the same entry, for example when a consumer
# acknowledges a whole entry, -1 means the entry.
# </details>
#
# **Next:** [13 streaming from ledgers](13-streaming.ipynb). A query reads each message once, even while bookies
# die.

# %%
spark.stop()  # ends the session; its JVM ends with the notebook's kernel
