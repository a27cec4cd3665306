# %% [markdown]
# # 11 · A message has an ID. What exactly does it identify?
#
# A producer sends a message and gets back four numbers, such as `4:1:0:3`. A consumer receives the same four numbers with the message. People store these ids in files and databases. They sort them, compare them, seek to them and acknowledge them. Which of these uses are safe?
#
# **At the end you can**
# - find the bytes of a message on every bookie that stores it, from its id alone,
# - tell from two ids which message was stored first, and say when you cannot tell,
# - look at a stored cursor and say which messages its subscription has acknowledged,
# - say which ledgers of a topic can be deleted, and why the disk space is not freed immediately.
#
# **Takes** about 105 minutes. **Needs** ZooKeeper, bookies and a broker as real processes. **Prerequisites:** lessons 08 and 10.
#
# > **The rule.** *A MessageID is an address, not a counter. Within a partition, ids increase in the order in which messages were stored. You cannot tell the order of two messages from different partitions by their ids.*

# %% tags=["parameters"]
batch_size = 5  # messages per batch
entries_per_ledger = 4  # then the topic starts the next ledger
chosen = 13  # the message whose bytes are shown

# %%
import pulsar

from labkit.course.lessons import (
    Ack,
    MessageIdLineage,
    OneBroker,
    after,
    check,
    cluster_with_broker,
    compare,
    first_and_last,
    hint,
    ids_of_a_quiet_topic,
    lineage_of_order,
    numbers,
    parameters,
    predict,
    receive_all,
    start,
)

parameters("11", globals())
order_count = batch_size * entries_per_ledger + 2

# %% [markdown]
# ## 1 · The picture
#
# You create a topic with two partitions in a simulated cluster of five bookies. A producer sends batches of orders, alternating between the two partitions.

# %%
MessageIdLineage(lineage_of_order(chosen, batch_size, entries_per_ledger))

# %% [markdown]
# **How to read the picture.** Start at the top. Each of the four numbers narrows down the search, and each has a different origin:
#
# | number | where it comes from | meaning on its own |
# | --- | --- | --- |
# | ledger id | the metadata store, from one counter for all topics | one ledger in the whole cluster |
# | entry id | the ledger's only writer, counting from 0 | none without the ledger |
# | partition | the topic name, `...-partition-1` | a separate topic |
# | batch index | the producer, when it builds the batch | none without the entry |
#
# Next comes the *write set*. The entry id modulo the ensemble size determines which bookies store the entry. If you click another bookie, you see the same bytes, but in a different file or at a different offset. Point at the bytes. BookKeeper's header contains the ledger id and the entry id. The partition is not stored in the entry, because it is part of the topic name. The batch index is not stored either. It is the number of messages before this one in the batch.

# %% [markdown]
# ## 2 · The official client
#
# From here on, you use a real cluster on this machine: ZooKeeper, three bookies and one labkit broker. The client is Pulsar's own client, unmodified (`broker.client`). The broker is configured to keep all ledgers. With Pulsar's defaults, the broker would delete a ledger within a few minutes if no subscription needed it (section 8).

# %%
broker = OneBroker(await start(cluster_with_broker(entries_per_ledger)))

# %% [markdown]
# You send the same orders again, to a topic without partitions. Each batch is one entry, and each ledger has at most `entries_per_ledger` entries. `broker.send` uses the client to send all messages and returns their ids. `numbers` returns the four numbers of an id.
#
# **Predict.** What are the four numbers of the order `chosen`? The topic's first ledger is also the first ledger in the cluster, so its id is 0. Replace `None` with a tuple.

# %%
my_id = None
# solution
entry = chosen // batch_size
my_id = (entry // entries_per_ledger, entry % entries_per_ledger, -1, chosen % batch_size)
# end
predict("id of the chosen order", my_id)

# %%
order_ids = broker.send("orders", [b"order %d" % n for n in range(order_count)], batch_size)
compare("id of the chosen order", numbers(order_ids[chosen]))

# %% [markdown]
# The client got one receipt per entry. The broker responded to each batch with a ledger id and an entry id. The client itself numbered the messages within the batch.
#
# ## 3 · When is a number -1?
#
# There are four ways to send a message:

# %%
print(broker.one_id_of_each_kind(order_ids[0], batch_size))

# %% [markdown]
# - **Partition -1**: the topic name does not end with `-partition-N`.
# - **Batch index -1**: the message was not batched, so it *is* the entry. A batch with a single message is still a batch, and the message's index is 0.
# - **All -1**: this id is not an address at all. For example, `MessageId.earliest` means "before everything". You will see such an id again in section 7.
#
# `serialize()` returns the bytes shown above. You can store them in a database, and `deserialize` restores the id. The bytes are a protobuf message that omits every number that is -1. (It also contains the batch size.) The printed text is only for people.
#
# **Which class?** The Python client has two classes for ids. The ids that it returns are not of the class that you can construct:

# %%
print("returned:   ", type(order_ids[0]))
constructed = pulsar.MessageId(-1, 0, 0, 0)
print("constructed:", type(constructed), constructed)
try:
    print("equal?", constructed == order_ids[0])
except AttributeError as error:
    print("equal?", error)

# %%
print("equal?", pulsar.MessageId.deserialize(order_ids[0].serialize()) == order_ids[0])

# %% [markdown]
# The constructor takes the partition **first**, but the printed id shows it third. You cannot compare an id that you constructed with an id that the client returned (`pulsar.MessageId.wrap` converts the latter). You cannot use either one as a dictionary key. The two classes also led to an error message that said it expected a MessageId but got a MessageId (Pulsar #16555). It is best not to construct ids from numbers. Store the bytes, compare the results of `deserialize`, and use the bytes as keys.
#
# Where is this message stored? labkit can trace the id in the real cluster, too. Timestamps and file names vary from run to run, so this picture varies as well.

# %% tags=["nbval-ignore-output"]
MessageIdLineage(await broker.lineage_of(order_ids[chosen]))

# %% [markdown]
# ## 4 · The chain of ledgers
#
# A topic is not a single ledger but a chain of ledgers. The last ledger is open. The others are closed and never change. Like Pulsar's own tools, `broker.chain` gets the chain from the broker:

# %%
for ledger_id, entry_count in broker.chain("orders"):
    print(f"ledger {ledger_id}, entries: {entry_count}")

# %% [markdown]
# A topic starts a new ledger when the current one is *full* (by entries, bytes or age), when an add fails and the writer cannot continue, and whenever a broker takes over the topic. In the last case, the broker first recovers and closes the existing ledger, so that the previous owner can no longer write to it (lesson 08).
#
# **Predict.** The broker unloads the topic and loads it again. Then you send one more order, without batching. What is its id, as a tuple? Remember that other ledgers were created after the last one in the list above: one for `of-one`, one for `single`, and one for each of the two partitions of `visits`.

# %%
my_next = None
# solution
my_next = (broker.chain("orders")[-1][0] + 5, 0, -1, -1)
# end
predict("the first id after the topic was reloaded", my_next)

# %%
broker.unload("orders")
[late_id] = broker.send("orders", [b"order after all"])
compare("the first id after the topic was reloaded", numbers(late_id))

# %% [markdown]
# So ids have gaps. Entry 0 of the new ledger directly follows the last order, but you cannot compute one id from the other. From an id, you cannot tell which message is ten thousand messages back, how many messages are between two others, or which id precedes it. To count, you need the chain, and even the chain only gives you the number of entries, not messages.
#
# ### Full by age
#
# In the simulated cluster, an hour takes no time at all. Here, an order arrives every 10 seconds, and a ledger is full when it is 45 seconds old, no matter how few entries it has.

# %% [markdown]
# **Predict.** How many entries does the first ledger have?

# %%
# solution
predict("entries of a ledger that is full by age", 5)
# learner
# predict("entries of a ledger that is full by age", None)
# end

# %%
max_age_s = 45  # managedLedgerMaxLedgerRolloverTimeMinutes; yours to change
max_bytes = 1_000_000  # managedLedgerMaxSizePerLedgerMbytes; yours to change: 200
min_age_s = 0  # managedLedgerMinLedgerRolloverTimeMinutes; yours to change: 90, with few bytes
quiet_ids = ids_of_a_quiet_topic(max_age_s, max_bytes, min_age_s)
print(*quiet_ids)
compare("entries of a ledger that is full by age", [i.ledger_id for i in quiet_ids].count(0))

# %% [markdown]
# ## 5 · Two partitions
#
# Now you send five visits, one after the other, to partitions 0, 1, 0, 1, 0. (Normally, the message key determines the partition, or the client cycles through the partitions, starting with a random one.)

# %%
visits = [broker.send("visits", [b"visit"], partition=p)[0] for p in (0, 1, 0, 1, 0)]
for number, message_id in enumerate(visits):
    print(f"visit {number}: {message_id}")

# %% [markdown]
# **Predict.** Sort these five ids by ledger id, then entry id. Which visit is first, and which is last? Give a tuple.

# %%
# solution
predict("first and last by ledger and entry", (0, 3))
# learner
# predict("first and last by ledger and entry", None)
# end

# %%
compare("first and last by ledger and entry", first_and_last(visits))

# %% [markdown]
# All visits to partition 0 sort before all visits to partition 1, no matter which ones were sent first. Ledger ids come from one counter for the whole cluster. Each partition's ledger got its id when the partition was opened, not when a message was sent. Within a partition, ids have the same order as the messages. Across partitions, they tell you nothing about the order. The client compares only ledger, entry and batch index, and does not warn you.
#
# ### Exercise 1: which message was first?
#
# `a` and `b` are ids with `ledger_id`, `entry_id`, `partition` and `batch_index`. Was `a` stored before `b`? Return `True`, `False`, or `None` if the ids cannot tell. The check calls your function for every pair of messages of a topic with two partitions, and compares the result with the order in which they were really sent.


# %%
# solution
def comes_before(a, b):
    if a.partition != b.partition:
        return None
    return (a.ledger_id, a.entry_id, a.batch_index) < (b.ledger_id, b.entry_id, b.batch_index)


# learner
# def comes_before(a, b):
#     """Return True, False, or None if the ids cannot tell."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("topics.order", comes_before)

# %% [markdown]
# Stuck? Call `hint("topics.order")` for up to three hints. The most common mistake is to compare the printed text:


# %% tags=["refused"]
def by_text(a, b):
    return str(a) < str(b) if a.partition == b.partition else None


check("topics.order", by_text, must_pass=False)

# %% [markdown]
# ## 6 · Acknowledge
#
# A subscription does not keep a list of messages. It keeps a *cursor*, which is a compact record of what has been acknowledged. Here are two ledgers of a topic. Each entry is a batch of three messages or a single message. A consumer has acknowledged messages in all three possible ways:

# %%
after([Ack((4, 1), up_to=True), Ack((7, 0), (0,)), Ack((7, 2))])

# %% [markdown]
# - **Mark-delete** is a position, that is, a ledger and an entry. Everything up to this position has been acknowledged. A cumulative acknowledgement advances it.
# - **Ranges** above mark-delete contain entries that were acknowledged individually. A range is open at the lower end: it does *not* contain its lower bound, but it does contain its upper bound.
# - For a partly acknowledged batch, one bit per message records what is **left**. A 1 means that the message has *not* been acknowledged.
#
# Now do the same with the official client. The consumer receives all orders and acknowledges some of them.

# %%
consumer = broker.subscribe("orders", "billing")
messages = receive_all(consumer)
# All messages up to the end of the first batch
consumer.acknowledge_cumulative(messages[batch_size - 1])
# One message of the third batch
consumer.acknowledge(messages[2 * batch_size])
# Every message of the fourth batch
for message in messages[3 * batch_size : 4 * batch_size]:
    consumer.acknowledge(message)
consumer.close()
print(f"{len(messages)} messages were received")

# %% [markdown]
# **Predict.** The consumer reconnects. How many messages does it receive now?

# %%
my_count = None
# solution
my_count = order_count + 1 - batch_size - 1 - batch_size
# end
predict("redelivered messages", my_count)

# %%
consumer = broker.subscribe("orders", "billing")
compare("redelivered messages", len(receive_all(consumer)))

# %% [markdown]
# This is the subscription's cursor:

# %%
print(broker.cursor("orders", "billing"))

# %% [markdown]
# Positions have no batch index, because the broker only knows entries. `broker.subscribe` sets `batch_index_ack_enabled`. Without it, the client acknowledges an entry only after all of its messages have been acknowledged, so a single unacknowledged message causes the whole batch to be redelivered. (In that case, a cumulative acknowledgement in the middle of a batch acknowledges everything up to the *previous* entry. For entry 0 of ledger L, that is the position `L:-1`, which is valid and acknowledges nothing in L.)
#
# ### Exercise 2: has it been acknowledged?
#
# `position` and `mark_delete` are tuples `(ledger id, entry id)`. `ranges` is a list of pairs of such tuples, each open at the lower end. `left` is a number with one bit per message of *this* batch (bit 0 for message 0), or `None` if the batch is not partly acknowledged. labkit has stored cursors after ten different patterns of acknowledgements. Your function decides which messages are delivered after a restart.


# %%
# solution
def is_acknowledged(position, batch_index, mark_delete, ranges, left):
    if position <= mark_delete:
        return True
    if any(lower < position <= upper for lower, upper in ranges):
        return True
    return left is not None and not left >> batch_index & 1


# learner
# def is_acknowledged(position, batch_index, mark_delete, ranges, left):
#     """Return whether this message has been acknowledged."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("topics.acknowledged", is_acknowledged)

# %% [markdown]
# A function that treats ranges as closed at both ends loses a message. The card shows which one:


# %% tags=["refused"]
def closed_ranges(position, batch_index, mark_delete, ranges, left):
    return position <= mark_delete or any(a <= position <= b for a, b in ranges)


check("topics.acknowledged", closed_ranges, must_pass=False)

# %% [markdown]
# ## 7 · Redelivery, seek and deduplication
#
# **Redelivery.** An unacknowledged message is redelivered when the consumer asks for it (`negative_acknowledge`), when the consumer takes too long (if a timeout is set), and when the consumer disconnects. The message keeps its id, and a counter says how many times it has been redelivered.

# %%
broker.deliveries("single", 3)

# %% [markdown]
# **Seek** moves the cursor to an address. Everything after the address then counts as unacknowledged, and everything before it counts as acknowledged.
#
# **Predict.** You call `consumer.seek(order_ids[7])`. Which order does the consumer receive next, 7 or 8?

# %%
# solution
predict("the next order after the seek", 8)
# learner
# predict("the next order after the seek", None)
# end

# %%
consumer.seek(order_ids[7])
compare("the next order after the seek", int(consumer.receive(5000).data().split()[1]))

# %% [markdown]
# The broker and the client share the work. The broker knows only entries, so it moves the cursor to the *entry* of that id and sends the whole entry, including the target message. The client then skips the messages before the target in the batch. It also skips the target itself, unless you set `start_message_id_inclusive=True`. So it is the client that makes a seek exclusive. If you seek to the last id that you processed, you receive the message after it.
#
# **Deduplication.** A producer numbers its messages. If deduplication is enabled for the namespace, the broker stores each sequence number only once. The setting affects only topics that are loaded after you enable it. This producer sends number 7 twice, as if the first receipt had been lost:

# %%
broker.deduplicate()
first, second = broker.send_twice("payments", b"pay 10", sequence_id=7)
print("first id is an address:", first.ledger_id() >= 0)
print("second id:             ", second)
broker.read_all("payments")

# %% [markdown]
# The broker acknowledges the second attempt as well, but with an id that is not an address. The message is stored, but the broker does not know where. A program that stores the ids from receipts must be prepared for this.
#
# ## 8 · When is the disk space freed?
#
# Acknowledging a message does not delete anything. A topic deletes whole ledgers, starting with the oldest one. It deletes only ledgers that no subscription needs and that retention does not protect. Retention has two limits: the time since the ledger was closed, and the size of the data that the topic keeps. Retention protects a ledger only while **both** limits protect it. The time limit protects a ledger until it is older than the limit. The size limit protects a ledger as long as the topic would keep less data than the limit without it. The value -1 means that there is no limit. With 0 and 0, Pulsar's default, a consumed ledger is deleted at once. The last ledger is never deleted.
#
# ### Exercise 3: can it be deleted?
#
# Your function decides about the oldest ledger. `consumed` is true if every subscription has acknowledged all of it. `age_ms` is the time since it was closed, and `left_bytes` is the number of bytes that the topic keeps without it. Your function replaces labkit's own in nine topics of a simulated cluster.


# %%
# solution
def may_go(consumed, age_ms, left_bytes, retention_ms, retention_bytes):
    is_old = retention_ms != -1 and age_ms > retention_ms
    is_too_much = retention_bytes != -1 and left_bytes >= retention_bytes
    return consumed and (is_old or is_too_much)


# learner
# def may_go(consumed, age_ms, left_bytes, retention_ms, retention_bytes):
#     """Return whether this ledger can be deleted."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("topics.retention", may_go)

# %% [markdown]
# A function that ignores the meaning of -1 deletes ledgers that should be kept forever:


# %% tags=["refused"]
def knows_no_limits(consumed, age_ms, left_bytes, retention_ms, retention_bytes):
    return consumed and (age_ms > retention_ms or left_bytes >= retention_bytes)


check("topics.retention", knows_no_limits, must_pass=False)

# %% [markdown]
# Even after the ledger has been deleted, the disk is as full as before. The metadata is gone, but the bytes are not. On each bookie, they are in entry logs, between entries of other ledgers. Freeing them takes a long chain of steps, and each step has its own timer:
#
# 1. The consumer acknowledges the messages (grouped, up to 100 ms later).
# 2. The ledger is full, so the broker closes it (50,000 entries, 2 GiB or 4 hours, but not before 10 minutes).
# 3. The broker trims the topic (whenever a ledger is closed, and every 2 minutes) and deletes the ledger's metadata.
# 4. Each bookie notices the deletion (`gcWaitTime`: 10 minutes, 15 in Pulsar's own settings) and deletes the logs in which *all* ledgers have been deleted.
# 5. Compaction rewrites other logs without the garbage, every hour and every day (lesson 10).
#
# A single forgotten subscription without a consumer stops this chain at step 3.

# %%
await broker.stop()

# %% [markdown]
# ## What the real system does
#
# | here | Apache Pulsar 4 |
# | --- | --- |
# | four numbers, serialized as `MessageIdData` | the same: `MessageIdImpl`, `BatchMessageIdImpl`; `ledgerId` and `entryId` are required, the others are -1 if omitted |
# | a ledger is full after a number of entries | `managedLedgerMaxEntriesPerLedger` 50,000, `managedLedgerMaxSizePerLedgerMbytes` 2048, `managedLedgerMaxLedgerRolloverTimeMinutes` 240; not before `managedLedgerMinLedgerRolloverTimeMinutes` 10 |
# | the chain | znode `/managed-ledgers/public/default/persistent/orders` (`ManagedLedgerInfo`), changed by compare-and-set |
# | the cursor | a znode below it (`ManagedCursorInfo`), and its own ledger (`PositionInfo`), stored at most once per second, so some acknowledged messages may be redelivered after a crash |
# | acknowledgement of single messages in a batch | `acknowledgmentAtBatchIndexLevelEnabled`, off in 3.x and 4.0 |
# | deduplication by producer and sequence id | `brokerDeduplicationEnabled`, off by default, or a namespace's policy; the marks are in a cursor named `pulsar.dedup` |
# | retention | `defaultRetentionTimeInMinutes` and `defaultRetentionSizeInMB`, 0 and 0; `ManagedLedgerImpl.internalTrimLedgers` |
#
# <details><summary>Is entry id -1 an error?</summary>
#
# No. `L:-1` is the position before ledger L's first entry, and a valid mark-delete position. A broker that turned it into 0 would count entry 0 as acknowledged.
# </details>
#
# What users have asked:
# - **#18835**: which fields make an id unique? Ledger and entry identify the entry within the whole cluster, and the batch index identifies the message within the entry. The maintainers replied that these fields are not a public API.
# - **#1455**, **#6462**, **#22036**, **PIP-230** (#18957): why is the batch index sometimes 0, sometimes -1, and sometimes missing? See section 3.
# - **#6523**, **#13160**, **#9038**, **PIP-415** (#24220): how can I go back N messages, get the last N messages, or use offsets as in Kafka? You cannot count with addresses, but you can configure a broker to add an index to each entry (`BrokerEntryMetadata`).
# - **#1060**, **#1277**, **#6350**, **#23498**: is entry -1 valid, and is a seek inclusive? See sections 6 and 7.
# - **#16555**, pulsar-client-python **#254**: why are there two classes in Python? See section 3.
# - **#20094**: why did an id decrease? The order follows the chain of ledgers, never the clock. See section 4.
# - **#12942**, **#15332**, **#12445**, **#6639**, **#20320**, **#23599**: why isn't the disk space freed? See section 8.

# %% [markdown]
# ## Questions
#
# <details><summary>Two ids have the same ledger and entry. One has batch index -1, and the other has batch index 3. Which one is first?</summary>
#
# Neither, because they do not identify two separate messages. The -1 means the entry as a whole, and 3 is a message in it. Clients sort -1 first, simply because it is the smaller number. Use only one kind of id, or compare only ledger and entry.
# </details>
#
# <details><summary>You store the id of the last message that you processed, and seek to it after a restart. What do you need to store for a topic with partitions?</summary>
#
# One id for each partition. There is no single "largest" id (see section 5).
# </details>
#
# <details><summary>Can an id be reused after its ledger has been deleted?</summary>
#
# Not in the same cluster, because ledger ids come from a counter that only increases. But if you set up the metadata from scratch, the counter starts over at 0. Then stored ids refer to other messages, or a consumer silently drops new messages because they look old.
# </details>
#
# <details><summary>A message was sent in chunks. What is its id?</summary>
#
# The message is stored in several entries, one per chunk. These entries are not always consecutive. The message's id is the id of the last chunk. The serialized id also contains the id of the first chunk, because a seek must start there.
# </details>
#
# <details><summary>How many messages are there between 4:0:-1:0 and 9:0:-1:0?</summary>
#
# You cannot tell from the ids. Ledgers 5 to 8 may belong to other topics, an entry may contain one message or a thousand, and a ledger may be empty. `pulsar-admin topics stats-internal` shows the chain and the number of entries in each ledger. To count messages, you have to read the entries.
# </details>
#
# **Next:** [12 MessageID streams](12-messageid-streams.ipynb). What can you learn from a hundred thousand ids?
