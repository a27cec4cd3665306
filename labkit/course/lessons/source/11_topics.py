# %% [markdown]
# # 11 · A message has an ID. What exactly does it name?
#
# A producer sends a message and gets four numbers back, such as `4:1:0:3`. A consumer gets the same four with the message. They are stored in files and databases, sorted, compared, sought and acknowledged. What can you safely do with them, and what can't you?
#
# **At the end you can**
# - find the bytes of a message on every bookie that has them, from its id alone,
# - say for two ids which message was stored first, and when the ids cannot tell,
# - read from a stored cursor what its subscription has acknowledged,
# - say which ledgers of a topic may be deleted, and why the disk space is not free at once.
#
# **Takes** about 105 minutes. **Needs** ZooKeeper, bookies and a broker as real processes. **After** lessons 08 and 10.
#
# > **The rule.** *A MessageID is an address, not a counter. Within one partition ids grow in the order in which messages were stored. Between two partitions they say nothing.*

# %% tags=["parameters"]
batch_size = 5  # messages in a batch
entries_per_ledger = 4  # then the next ledger begins
chosen = 13  # the message whose bytes are shown

# %%
import asyncio
import json
import urllib.request

import pulsar

# %%
from labkit.course.lessons import check, compare, hint, parameters, predict, start
from labkit.course.runs.cursor_cases import Ack, after
from labkit.course.runs.topic_world import folders_of, in_a_cluster, lineage_of
from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.views.shell.lineage import find_lineage
from labkit.views.widgets import MessageIdLineage
from labkit.worlds.live.processes.cluster import LocalCluster

parameters("11", globals())
order_count = batch_size * entries_per_ledger + 2

# %% [markdown]
# ## 1 · The picture
#
# A topic with two partitions on five bookies, in the simulated cluster. A producer sends orders in batches, to the two partitions in turn.


# %%
async def send_orders(node):
    config = ManagedLedgerConfig(5, 3, 2, max_entries_per_ledger=entries_per_ledger)
    topic = await Topic.create(node.client, "orders", partitions=2, config=config)
    producer = topic.producer("shop", batching=Batching(max_messages=batch_size))
    sent = [producer.send(b"order %d" % n) for n in range(2 * order_count)]
    ids = await asyncio.gather(*sent)
    await asyncio.sleep(1)  # in this time the bookies flush
    return await lineage_of(node, ids[chosen])


MessageIdLineage(in_a_cluster(send_orders, bookies=5))

# %% [markdown]
# **How to read it**, from the top. Each of the four numbers narrows the search, and each has another origin:
#
# | number | who assigns it | what it means alone |
# | --- | --- | --- |
# | ledger id | the metadata store, from one counter for all topics | a ledger of the whole cluster |
# | entry id | the one writer of that ledger, from 0 | nothing without its ledger |
# | partition | the name of the topic, `...-partition-1` | a separate topic |
# | batch index | the producer, when it puts messages together | nothing without its entry |
#
# Then the *write set*: entry id modulo ensemble size says on which bookies the entry lies. Click another bookie: another file, another offset, the same bytes. Point at the bytes. Ledger id and entry id are in BookKeeper's header of the entry. The partition is in no byte: it is part of the topic's name. The batch index is in no byte either: it is the number of messages that come before this one in the batch.

# %% [markdown]
# ## 2 · The official client
#
# From here on a real cluster runs on this machine: ZooKeeper, three bookies, one labkit broker. The client is Pulsar's own, unchanged. The broker keeps all ledgers: with Pulsar's defaults it would delete those that no subscription needs, within a few minutes (section 8).

# %%
broker_conf = {
    "managedLedgerMaxEntriesPerLedger": entries_per_ledger,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
}
cluster = await start(LocalCluster(3, brokers=1, traced=False, broker_conf=broker_conf))
logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
client = pulsar.Client(cluster.service_url, logger=logger)

# %% [markdown]
# Three small tools: send, read an id's numbers, and ask the broker over HTTP, as `pulsar-admin` does.


# %%
def send(topic, payloads, **options):
    """Send all without waiting, and give their ids in the order of sending."""
    producer = client.create_producer(topic, **options)
    ids = []
    for payload in payloads:
        producer.send_async(payload, lambda result, message_id: ids.append(message_id))
    producer.flush()
    producer.close()
    return ids


# %%
def numbers(id):
    return id.ledger_id(), id.entry_id(), id.partition(), id.batch_index()


def admin(path, method="GET", data=None, of="persistent"):
    url = f"{cluster.web_url_of('broker-1')}/admin/v2/{of}/public/default/{path}"
    json_type = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, json_type, method=method)
    with urllib.request.urlopen(request) as reply:
        return json.loads(reply.read() or "null")


# %% [markdown]
# The same orders again, into a topic without partitions. Each batch is one entry, and a ledger takes `entries_per_ledger` of them.
#
# **Predict.** What are the four numbers of the order `chosen`? The ledger is the first of the cluster, so its id is 0. Replace `None` with a tuple.

# %%
my_id = None
# solution
entry = chosen // batch_size
my_id = (entry // entries_per_ledger, entry % entries_per_ledger, -1, chosen % batch_size)
# end
predict("id of the chosen order", my_id)

# %%
batches = {"batching_enabled": True, "batching_max_messages": batch_size}
batches["batching_max_publish_delay_ms"] = 1000
orders = [b"order %d" % n for n in range(order_count)]
order_ids = send("orders", orders, **batches)
compare("id of the chosen order", numbers(order_ids[chosen]))

# %% [markdown]
# One entry, one receipt: the broker answered each batch with a ledger id and an entry id. The client numbered the messages of the batch itself, by counting.
#
# ## 3 · When is a number -1?
#
# Four ways to send one message:

# %%
kinds = {
    "in a batch": order_ids[0],
    "batch of one": send("of-one", [b"alone"], **batches)[0],
    "not batched": send("single", [b"alone"])[0],
}

# %%
admin("visits/partitions", "PUT", b"2")
for number in range(2):  # open one partition after the other
    client.create_producer(f"visits-partition-{number}").close()
to_1 = {"message_router": lambda message, count: 1}
kinds["in a partition"] = send("visits", [b"visit"], **to_1)[0]

for kind, message_id in kinds.items():
    print(f"{kind:<15} {message_id!s:<12} stored as {message_id.serialize().hex()}")

# %% [markdown]
# - **Partition -1**: the topic's name does not end with `-partition-N`.
# - **Batch index -1**: the message was not put into a batch: it *is* the entry. A batch of one is a batch, and its index is 0.
# - **All -1**: no address at all. `MessageId.earliest` says "before everything". It comes back in section 7.
#
# `serialize()` returns these bytes; store them in a database, and `deserialize` restores the id. They are protobuf, and a number that is -1 is left out. (They also contain the size of the batch.) The printed text is for people.
#
# **Which class?** Python has two for an id, and the class that the client returns is not the one that you can construct:

# %%
print("given:", type(order_ids[0]))
made = pulsar.MessageId(-1, 0, 0, 0)
print("made: ", type(made), made)
try:
    print("equal?", made == order_ids[0])
except AttributeError as error:
    print("equal?", error)

# %%
again = pulsar.MessageId.deserialize(order_ids[0].serialize())
print("equal?", again == order_ids[0])

# %% [markdown]
# The constructor takes the partition **first**, and prints it third. An id that you construct does not compare with one that the client returns (`pulsar.MessageId.wrap` converts the latter), and neither can be a key of a dictionary. That is why an error could say that it wants a MessageId and not a MessageId (Pulsar #16555). It is best not to construct ids from numbers: store the bytes, compare the results of `deserialize`, and use the bytes as keys.
#
# Where do those bytes lead? labkit finds them on the real cluster in the same way. Times and names of files differ from run to run, and so does this picture.

# %% tags=["nbval-ignore-output"]
bookkeeper = await cluster.connect()
live_id = MessageId.from_bytes(order_ids[chosen].serialize())
MessageIdLineage(await find_lineage(bookkeeper, live_id, folders_of(cluster)))

# %% [markdown]
# ## 4 · The chain of ledgers
#
# A topic is not one ledger but a chain of them. The last one is open; the others are closed and never change. Pulsar's own tools ask the broker for the chain like this:


# %%
def chain(topic):
    ledgers = admin(f"{topic}/internalStats")["ledgers"]
    return [(ledger["ledgerId"], ledger["entries"]) for ledger in ledgers]


for ledger_id, entry_count in chain("orders"):
    print(f"ledger {ledger_id}, entries: {entry_count}")

# %% [markdown]
# The next ledger begins when one is *full* (by entries, bytes or age), when an add fails and the ledger cannot go on, and whenever a broker takes the topic over. Why then? The broker that opens a topic closes the ledger it finds, so that the previous owner cannot write any more (lesson 08), and begins a new one.
#
# **Predict.** The broker gives the topic up and opens it again. Then one more order is sent, not batched. What is its id, as a tuple? Think of the ledgers that were created since the last one in the list above: those of `of-one`, of `single` and of the two partitions of `visits`.

# %%
my_next = None
# solution
my_next = (chain("orders")[-1][0] + 5, 0, -1, -1)
# end
predict("the first id after the topic was opened again", my_next)

# %%
admin("orders/unload", "PUT", b"")
late_id = send("orders", [b"order after all"])[0]
compare("the first id after the topic was opened again", numbers(late_id))

# %% [markdown]
# So there are holes. Entry 0 of the new ledger follows directly after the last order, and no arithmetic leads from one id to the other. "Ten thousand messages back", "how many are between these two", "the id before this one": an address cannot answer these. Only the chain lets you count, and even the chain counts entries, not messages.
#
# ### Full by age
#
# An hour takes no time in the simulated cluster. There an order comes every 10 seconds, and a ledger is full when it is 45 seconds old, however few entries it has.


# %%
async def quiet_orders(node):
    limits = {"max_ledger_age_ms": max_age_s * 1000, "max_ledger_size_bytes": max_bytes}
    config = ManagedLedgerConfig(**limits, min_ledger_age_ms=min_age_s * 1000)
    topic = await Topic.create(node.client, "quiet", partitions=0, config=config)
    producer = topic.producer("shop")
    ids = []
    for number in range(12):
        ids.append(await producer.send(b"order %d" % number))
        await asyncio.sleep(10)
    return ids


# %% [markdown]
# **Predict.** How many entries has the first ledger?

# %%
# solution
predict("entries of a ledger that is full by age", 5)
# learner
# predict("entries of a ledger that is full by age", None)
# end

# %%
max_age_s = 45  # managedLedgerMaxLedgerRolloverTimeMinutes; yours to change, as the next two
max_bytes = 1_000_000  # managedLedgerMaxSizePerLedgerMbytes; try 200
min_age_s = 0  # managedLedgerMinLedgerRolloverTimeMinutes; try 90 with few bytes
quiet_ids = in_a_cluster(quiet_orders)
print(*quiet_ids)
compare("entries of a ledger that is full by age", [i.ledger_id for i in quiet_ids].count(0))

# %% [markdown]
# ## 5 · Two partitions
#
# Now five visits, one after the other, to partitions 0, 1, 0, 1, 0. (Usually a message's key chooses the partition, or the client takes turns and starts with a random one.)

# %%
to = iter([0, 1, 0, 1, 0])
producer = client.create_producer("visits", message_router=lambda message, count: next(to))
visits = [producer.send(b"visit %d" % n) for n in range(5)]
producer.close()
for number, message_id in enumerate(visits):
    print(f"visit {number}: {message_id}")

# %% [markdown]
# **Predict.** Sort these five ids by ledger id, then entry id. Which visit comes first, and which last? Give a tuple.

# %%
# solution
predict("first and last by ledger and entry", (0, 3))
# learner
# predict("first and last by ledger and entry", None)
# end

# %%
by_number = sorted(range(5), key=lambda n: numbers(visits[n])[:2])
compare("first and last by ledger and entry", (by_number[0], by_number[-1]))

# %% [markdown]
# All of partition 0 comes before all of partition 1, whichever visit was first. Ledger ids come from one counter of the whole cluster, and a partition's ledger got its id when the partition was opened, not when a message was sent. Within a partition the order is right; between partitions the ids say nothing. The client itself compares only ledger, entry and batch index, and does not warn you.
#
# ### Exercise 1: which was first?
#
# `a` and `b` are ids with `ledger_id`, `entry_id`, `partition` and `batch_index`. Did `a` come before `b`? Return `True`, `False`, or `None` where the ids cannot tell. Your function is asked about every pair of messages of a topic with two partitions, in the order in which they were really sent.


# %%
# solution
def comes_before(a, b):
    if a.partition != b.partition:
        return None
    return (a.ledger_id, a.entry_id, a.batch_index) < (b.ledger_id, b.entry_id, b.batch_index)


# learner
# def comes_before(a, b):
#     """True, False, or None if the ids do not tell."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("topics.order", comes_before)

# %% [markdown]
# Stuck? `hint("topics.order")` gives three hints. The most common mistake is to compare the printed text:

# %% tags=["refused"]
check(
    "topics.order",
    lambda a, b: str(a) < str(b) if a.partition == b.partition else None,
    must_pass=False,
)

# %% [markdown]
# ## 6 · Acknowledge
#
# A subscription keeps no list of messages. It keeps a *cursor*: a compact record of what was acknowledged. Here are two ledgers of a topic; an entry holds a batch of three, or one message. A consumer has acknowledged in all three possible ways:

# %%
after([Ack((4, 1), up_to=True), Ack((7, 0), (0,)), Ack((7, 2))])

# %% [markdown]
# - **Mark-delete** is a position, ledger and entry: everything up to it is acknowledged. A cumulative acknowledgement moves it.
# - **Ranges** above it hold entries that were acknowledged one by one. A range is open below: its lower end is *not* in it, its upper end is.
# - For a partly acknowledged batch, one bit for each message says what is **left**. A 1 is a message that is *not* acknowledged.
#
# Now the same with the official client. The consumer takes all orders and acknowledges some.

# %%
earliest = pulsar.InitialPosition.Earliest
options = {"initial_position": earliest, "batch_index_ack_enabled": True}


def take_all(consumer):
    """All messages up to a pause of two seconds."""
    found = []
    try:
        while True:
            found.append(consumer.receive(2000))
    except pulsar.Timeout:
        return found


# %%
consumer = client.subscribe("orders", "billing", **options)
messages = take_all(consumer)
# All up to the end of the first batch
consumer.acknowledge_cumulative(messages[batch_size - 1])
# One message of the third batch
consumer.acknowledge(messages[2 * batch_size])
# Every message of the fourth batch
for message in messages[3 * batch_size : 4 * batch_size]:
    consumer.acknowledge(message)
consumer.close()
print(f"{len(messages)} messages were received")

# %% [markdown]
# **Predict.** The consumer comes back. How many messages does it get now?

# %%
my_count = None
# solution
my_count = order_count + 1 - batch_size - 1 - batch_size
# end
predict("messages that come again", my_count)

# %%
consumer = client.subscribe("orders", "billing", **options)
again = take_all(consumer)
compare("messages that come again", len(again))

# %% [markdown]
# And this is the cursor:

# %%
cursor = admin("orders/internalStats")["cursors"]["billing"]
print("mark-delete:", cursor["markDeletePosition"])
print("ranges:     ", cursor["individuallyDeletedMessages"])

# %% [markdown]
# Positions have no batch index: the broker knows entries only. Without `batch_index_ack_enabled` the client acknowledges an entry only when all its messages are acknowledged, and one unacknowledged message brings the whole batch again. (A cumulative acknowledgement in mid-batch then means the entry *before*: for entry 0 of ledger L that is the position `L:-1`, which is legal and acknowledges nothing of L.)
#
# ### Exercise 2: was it acknowledged?
#
# `position` and `mark_delete` are tuples `(ledger id, entry id)`; `ranges` is a list of pairs of such tuples, open below; `left` is the number with the bits of *this* batch, bit 0 for message 0, or `None` if the batch is not partly acknowledged. Your function decides what is delivered after a restart, from the cursors that labkit has stored after ten ways to acknowledge.


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
#     """True if this message need not be delivered again."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("topics.acknowledged", is_acknowledged)

# %% [markdown]
# An answer that takes a range as closed on both sides loses a message. The card shows which one:

# %% tags=["refused"]
check(
    "topics.acknowledged",
    lambda position, batch_index, mark_delete, ranges, left: (
        position <= mark_delete or any(a <= position <= b for a, b in ranges)
    ),
    must_pass=False,
)

# %% [markdown]
# ## 7 · Again, and back
#
# **Redelivery.** An unacknowledged message comes again: when the consumer asks for it (`negative_acknowledge`), when the consumer is too slow (if a timeout was set), and when the consumer is gone. The message has the same id; a counter beside it says how often it came.

# %%
worker = client.subscribe(
    "single",
    "work",
    consumer_type=pulsar.ConsumerType.Shared,
    initial_position=earliest,
    negative_ack_redelivery_delay_ms=100,
)
deliveries = []
for _ in range(3):
    message = worker.receive(5000)
    deliveries.append((str(message.message_id()), message.redelivery_count()))
    worker.negative_acknowledge(message)
worker.close()
deliveries

# %% [markdown]
# **Seek** moves the cursor to an address. Everything after it then counts as unacknowledged, everything before it as acknowledged.
#
# **Predict.** `consumer.seek(order_ids[7])`: which order comes next, 7 or 8?

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
# Broker and client both take part. The broker knows entries only: it goes to the *entry* of that id and sends all of it, including the named message. The client then skips what lies before the target in the batch, and the target itself, unless `start_message_id_inclusive=True` is set. So "exclusive" is the client's choice, and a seek to the last id that you processed continues after it.
#
# **Deduplication.** A producer numbers its messages, and the broker stores each number once, if its namespace asks for it: the setting holds for topics that are opened afterwards. This producer sends number 7 twice, as if its first receipt had been lost:

# %%
admin("deduplication", "POST", b"true", of="namespaces")
producer = client.create_producer("payments", producer_name="till-1", initial_sequence_id=6)
first, second = (producer.send(b"pay 10", sequence_id=7) for _ in range(2))
producer.close()
print("the first has a place:", first.ledger_id() >= 0)
print("the second:           ", second)
reader = client.create_reader("payments", pulsar.MessageId.earliest)
payments = []
while reader.has_message_available():
    payments.append(reader.read_next().data())
reader.close()
payments

# %% [markdown]
# The second attempt is acknowledged as well, with an id that is not an address: the message is stored, but the broker does not know where. A program that keeps ids in a table must be ready for that.
#
# ## 8 · When is the disk space freed?
#
# Acknowledging deletes nothing. A topic loses whole ledgers, from the beginning of its chain, and only those that no subscription needs and retention does not protect. Two limits protect a ledger: a time since it was closed, and a size that the topic keeps. A ledger stays only while **both** protect it: the time until its age is greater, the size until the topic keeps at least so much without the ledger. -1 means no limit, and with 0 and 0, Pulsar's default, a consumed ledger is deleted at once. The last ledger is never deleted.
#
# ### Exercise 3: may it be deleted?
#
# Your function is asked about the oldest ledger: `consumed` says whether every subscription has acknowledged all of it, `age_ms` how long ago it was closed, `left_bytes` how many bytes the topic keeps without it. Your function replaces labkit's own decision in nine topics of a simulated cluster.


# %%
# solution
def may_go(consumed, age_ms, left_bytes, retention_ms, retention_bytes):
    is_old = retention_ms != -1 and age_ms > retention_ms
    is_too_much = retention_bytes != -1 and left_bytes >= retention_bytes
    return consumed and (is_old or is_too_much)


# learner
# def may_go(consumed, age_ms, left_bytes, retention_ms, retention_bytes):
#     """True if this ledger may be deleted."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("topics.retention", may_go)

# %% [markdown]
# An answer that forgets that -1 means no limit deletes ledgers that should be kept for ever:

# %% tags=["refused"]
check(
    "topics.retention",
    lambda consumed, age_ms, left_bytes, retention_ms, retention_bytes: (
        consumed and (age_ms > retention_ms or left_bytes >= retention_bytes)
    ),
    must_pass=False,
)

# %% [markdown]
# When the ledger is deleted, the disk is still as full as before. The metadata are gone, the bytes are not: on each bookie they lie in entry logs, between entries of other ledgers. The chain of events is long, and each step has its own clock:
#
# 1. the consumer acknowledges (grouped, up to 100 ms later);
# 2. the ledger is full and closed (50,000 entries, 2 GiB or 4 hours, but not before 10 minutes);
# 3. the broker trims (when a ledger is closed, and every 2 minutes) and deletes the ledger's metadata;
# 4. each bookie finds that out (`gcWaitTime`: 10 minutes, 15 in Pulsar's own settings), and deletes logs in which *all* ledgers are gone;
# 5. other logs are rewritten without the dead entries: compaction, every hour and every day (lesson 10).
#
# A single forgotten subscription without a reader stops the whole chain at step 3.

# %%
consumer.close()
client.close()
await cluster.stop()

# %% [markdown]
# ## What the real system does
#
# | here | Apache Pulsar 4 |
# | --- | --- |
# | four numbers, `MessageIdData` as bytes | the same: `MessageIdImpl`, `BatchMessageIdImpl`; `ledgerId` and `entryId` required, the others -1 when left out |
# | a ledger is full after a number of entries | `managedLedgerMaxEntriesPerLedger` 50,000, `managedLedgerMaxSizePerLedgerMbytes` 2048, `managedLedgerMaxLedgerRolloverTimeMinutes` 240; not before `managedLedgerMinLedgerRolloverTimeMinutes` 10 |
# | the chain | node `/managed-ledgers/public/default/persistent/orders` (`ManagedLedgerInfo`), changed by compare-and-set |
# | the cursor | a node below it (`ManagedCursorInfo`), and its own ledger (`PositionInfo`), stored at most once a second: after a crash some acknowledged messages may come again |
# | acknowledgement of single messages of a batch | `acknowledgmentAtBatchIndexLevelEnabled`, off in 3.x and 4.0 |
# | deduplication by producer and sequence id | `brokerDeduplicationEnabled`, off by default, or a namespace's policy; the marks are in a cursor named `pulsar.dedup` |
# | retention | `defaultRetentionTimeInMinutes` and `defaultRetentionSizeInMB`, 0 and 0; `ManagedLedgerImpl.internalTrimLedgers` |
#
# <details><summary>Is entry id -1 an error?</summary>
#
# No. `L:-1` is the place before ledger L's first entry: a mark-delete position can be there. A broker that turned it into 0 would count entry 0 as acknowledged.
# </details>
#
# What users have asked:
# - **#18835**: which fields make an id unique? Ledger and entry name the entry in the whole cluster, the batch index the message in it. The answer there was that these fields are not a public interface.
# - **#1455**, **#6462**, **#22036**, **PIP-230** (#18957): batch index 0 or -1, and sometimes missing. Section 3.
# - **#6523**, **#13160**, **#9038**, **PIP-415** (#24220): go back N messages, the last N, an offset as in Kafka. An address cannot count; a broker can be configured to stamp each entry with an index (`BrokerEntryMetadata`).
# - **#1060**, **#1277**, **#6350**, **#23498**: is entry -1 valid, is a seek inclusive. Sections 6 and 7.
# - **#16555**, pulsar-client-python **#254**: two classes in Python. Section 3.
# - **#20094**: an id that went back. Order follows the chain of ledgers, never the clock: section 4.
# - **#12942**, **#15332**, **#12445**, **#6639**, **#20320**, **#23599**: the disk space is not freed. Section 8.

# %% [markdown]
# ## Questions
#
# <details><summary>An id has batch index -1, another one 3, of the same ledger and entry. Which is first?</summary>
#
# They do not name two separate messages: -1 means the entry as a whole, 3 a message in it. Clients sort -1 first, because it is the smaller number. So a batch and one of its messages are neither equal nor truly ordered; keep ids of one kind, or compare only ledger and entry.
# </details>
#
# <details><summary>You store the id of the last message that you processed, and seek to it after a restart. What do you need for a topic with partitions?</summary>
#
# One id for each partition. A single "largest" id does not exist: section 5.
# </details>
#
# <details><summary>Can an id be used again, once its ledger is deleted?</summary>
#
# Ledger ids come from a counter that only goes up, so not while the cluster lives. If the metadata are set up again from scratch, the counter begins at 0 again; ids that were stored elsewhere then lead to other messages, or a consumer silently drops new messages because they look old.
# </details>
#
# <details><summary>A message was sent in chunks. What is its id?</summary>
#
# It lies in several entries, one for each chunk, and not always one after the other. Its id is that of the last chunk; the id's bytes also contain the id of the first chunk, because a seek must begin there.
# </details>
#
# <details><summary>How many messages lie between 4:0:-1:0 and 9:0:-1:0?</summary>
#
# The ids do not say. Ledgers 5 to 8 may be of other topics, an entry may hold one message or a thousand, and a ledger may be empty. `pulsar-admin topics stats-internal` shows the chain with entries for each ledger; for messages the entries must be read.
# </details>
#
# **Next:** [12 MessageID streams](12-messageid-streams.ipynb): what do a hundred thousand of these IDs tell?
