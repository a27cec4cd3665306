"""Questions about topics and streams, and about the protocol as a whole."""

from dataclasses import replace
from functools import partial
from random import Random

from labkit.course.inventory.question import Item
from labkit.course.runs.broken_runs import lost_entries
from labkit.course.runs.topics.topic_world import in_a_cluster
from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.chain.retention import ledgers_to_delete
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.topic import Topic
from labkit.system.trace.answers import MessageDelivered
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Recover, Write


def acknowledged(random: Random) -> Item:
    ledgers, entries = random.randrange(4, 8), random.choice((10, 20, 50))
    current = random.randrange(2, ledgers - 1)
    chain = [LedgerInfo(number, entries, 1000, 1) for number in range(ledgers)]
    keep_nothing = ManagedLedgerConfig(retention_time_ms=0, retention_size_bytes=0)
    deleted = ledgers_to_delete(chain, (current, entries // 2 - 1), 1000, keep_nothing)
    return Item(
        f"A topic has {ledgers} ledgers of {entries} messages each. Its only subscription has"
        f" acknowledged all messages of the first {current} ledgers and half of the next one. The"
        " topic retains nothing else. How many messages can be deleted from the bookies' disks?",
        str(len(deleted) * entries),
        {
            str(current * entries + entries // 2): "An acknowledged message is deleted.",
            str((current + 1) * entries): "A ledger is deleted with its first message.",
            "0": "Bookies keep all messages of a topic that still exists.",
        },
    )


def newer(random: Random) -> Item:
    counts = random.sample(range(1, 9), 2)
    first, again = (
        in_a_cluster(partial(_last_of_each, counts=counts, order=order)) for order in (1, -1)
    )
    smaller, larger = sorted(first)
    # The messages get the same IDs, regardless of which message was sent first.
    unknown = "The IDs do not say."
    return Item(
        f"A topic has two partitions. One message has the ID {larger}, another one has the ID"
        f" {smaller} (ledger:entry:partition). Which of them was sent later?",
        unknown if first == again else larger,
        {
            larger: "A larger ID is a newer message.",
            smaller: "Ledgers of a topic are filled in any order.",
            "Both were sent at the same time.": "Partitions are written together.",
        },
    )


async def _last_of_each(node: ClientNode, counts: list[int], order: int) -> set[str]:
    """Fill the partitions one after the other, and return the ID of the last message in each."""
    topic = await Topic.create(node.client, "orders", partitions=2)
    producer = topic.producer()
    ids = set()
    # These keys belong to partitions 0 and 1.
    for key, count in list(zip("ba", counts, strict=True))[::order]:
        sent = [await producer.send(b"order", key=key) for _ in range(count)]
        ids.add(_shown(sent[-1]))
    return ids


def _shown(message_id: MessageId) -> str:
    return f"{message_id.ledger_id}:{message_id.entry_id}:{message_id.partition}"


def hole(random: Random) -> Item:
    entries = random.randrange(3, 7)
    others = random.choice([count for count in (1, 2, 3) if count != entries - 2])
    ids, received = in_a_cluster(partial(_rolled_over, entries=entries, others=others))
    last, first = ids[entries - 1], ids[entries]
    skipped = first.ledger_id - last.ledger_id - 1
    return Item(
        f"A topic without partitions begins a new ledger after every {entries} messages. A reader"
        f" sees the message {last.ledger_id}:{last.entry_id} (ledger:entry), and right after it the"
        f" message {first.ledger_id}:{first.entry_id}. How many messages were lost between them?",
        str(len(ids) - received),
        {
            str(skipped): "Each missing ledger id is a lost message.",
            str(skipped * entries): "Each missing ledger id is a lost ledger.",
            str(entries - 1): "A smaller entry id shows that the numbers in between are lost.",
        },
    )


async def _rolled_over(node: ClientNode, entries: int, others: int) -> tuple[list[MessageId], int]:
    """Send messages to a topic while other topics also use up ledger ids."""
    config = ManagedLedgerConfig(max_entries_per_ledger=entries)
    topic = await Topic.create(node.client, "orders", partitions=0, config=config)
    producer = topic.producer()
    ids = [await producer.send(b"order") for _ in range(entries - 1)]
    for number in range(others + 1):
        other = await Topic.create(node.client, f"other-{number}", partitions=0, config=config)
        await other.producer().send(b"other")
    ids += [await producer.send(b"order") for _ in range(2)]
    consumer, received = topic.consumer(), 0
    while some := await consumer.receive(10):
        received += len(some)
    return ids, received


def processed(random: Random) -> Item:
    each, count = random.choice((3, 4, 5)), random.randrange(11, 17)
    consume = Consume(messages=count, entries_per_connection=each)
    steps = Publish(messages=count, batch_size=1), consume
    trace = run(Scenario(Cluster(3, brokers=1), steps, limit_s=60))
    delivered = [found for found in trace.answers if isinstance(found, MessageDelivered)]
    crashes = len(delivered) - count
    return Item(
        f"A consumer must process {count} messages. It acknowledges each message after processing"
        f" it. {crashes} times, it crashes after it has processed a message and before it has"
        " acknowledged it. Each time, it starts again with the same subscription. How many times"
        " does it process a message in total?",
        f"{len(delivered)} times",
        {
            f"{count} times": "Each message is delivered exactly once.",
            f"{count - crashes} times": "A message that is not acknowledged is lost.",
            f"{count * (crashes + 1)} times": "A consumer always begins with the first message.",
        },
    )


_RARE_BUG = "no fencing on recovery reads"
_LOSES = {"delay w>b0 1": 10.0, "delay w>b1 1": 5.0, "lose r>b1 1": 1.0}


def clean_tests(random: Random) -> Item:
    tests = random.choice((500, 1000, 2000, 5000))
    # Run the same bug twice: first the messages arrive in an ordinary order, then in an unlucky
    # one.
    steps = Write(entries=1), Recover(when=On("add.sent", nth=3))
    ordinary = Scenario(Cluster(3), steps, variant=_RARE_BUG, limit_s=2.0)
    is_found = bool(lost_entries(run(ordinary)))
    is_harmful = bool(lost_entries(run(replace(ordinary, decisions=_LOSES))))
    may_lose = "It may still lose data if messages arrive in one particular order."
    return Item(
        f"A program has been run {tests} times, each time with random crashes and delays. No"
        " run has lost any data. What do you know about the program?",
        may_lose if is_harmful and not is_found else "It loses data in every run.",
        {
            "It never loses data.": "Many runs without an error are a proof.",
            "It may lose data, but only if a disk is damaged.": "Only broken hardware loses data.",
            "It may still be slow, but it is correct.": "Tests find all errors but slowness.",
        },
    )


def append_only(random: Random) -> Item:
    paused_after, entries = random.choice((3, 4, 5)), random.randrange(8, 12)
    steps = Write(entries=entries, window=2, every_ms=0.5), Recover(when=On("node.paused"))
    paused = Pause("w", 20.0, On("lac.advanced", paused_after))
    trace = run(Scenario(Cluster(3), steps, (paused,), variant="recovery without fencing"))
    can, cannot = "Yes", "No, because nothing is ever overwritten."
    return Item(
        f"Two processes both believe that they own the same log. One was paused after entry"
        f" {paused_after - 1} and resumes, the other has closed the log in the meantime. Both only"
        " append. There is no fencing. Can an acknowledged entry be missing from the closed log?",
        can if lost_entries(trace) else cannot,
        {
            cannot: "A log that only grows needs no fencing.",
            "Only if both append at exactly the same moment.": "Two writers must meet to do harm.",
            "Only if a bookie fails as well.": "Without a failure, copies protect every entry.",
        },
    )
