"""Reads every entry from every bookie that should have it, after all faults have been repaired."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from labkit.system.autorecovery.underreplication import (
    LedgerUnderreplicationManager,
    UnavailableException,
)
from labkit.system.client.reads import BookieReads
from labkit.system.client.striping import write_set
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException, LabkitError
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.messages import decode_messages
from labkit.system.topic.names import full_name, managed_ledger_path, partition_of
from labkit.system.trace.answers import MarksFound, MessageRead
from labkit.worlds.sim.nodes.bookie_node import BookieNode
from labkit.worlds.sim.nodes.broker_node import BrokerNode
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.nodes.results import content_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.produce import Produce
from labkit.worlds.sim.workload.publish import Publish

T = TypeVar("T")

_RETRY_INTERVAL_S = 0.2
_PATIENCE_S = 30.0
_BATCH_SIZE = 512


async def read_everything(
    scenario: Scenario,
    bookies: Mapping[str, BookieNode],
    brokers: Mapping[str, BrokerNode],
    clients: Mapping[str, ClientNode],
) -> None:
    """Cut the power, restart all nodes except brokers, recover all ledgers, and read every copy."""
    node = clients[EPILOGUE]
    node.world.report("epilogue.started", node.name)
    if scenario.ends_in_power_cut:
        for bookie in bookies.values():
            bookie.crash("lost")
    for broker in brokers.values():
        broker.crash(reason="nothing is written any more")
    for each in (*bookies.values(), *clients.values()):
        each.start()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_S
    while loop.time() < deadline:
        # A bookie that is down at this point has failed to start.
        if all(each.is_serving or not each.is_up for each in bookies.values()):
            break
        await asyncio.sleep(0.01)
    await asyncio.wait((node.spawn(_look_up(node, scenario)),))


async def _look_up(node: ClientNode, scenario: Scenario) -> None:
    await node.ready()
    ledger_ids = await _retry(node.client.list_ledgers)
    if scenario.cluster.autorecovery is not None:
        marks = tuple(await _remaining_marks(node))
        node.world.results.record(MarksFound, _PATIENCE_S, marks)
    for ledger_id in ledger_ids:
        try:
            await _retry(partial(_recover, node, ledger_id))
            metadata = await _retry(partial(node.client.ledger_metadata, ledger_id))
        except LabkitError as error:
            name, reason = type(error).__name__, str(error)
            node.recorder.record("ledger.unreadable", ledger_id, error=name, explanation=reason)
            continue
        if metadata.state is LedgerState.CLOSED:
            await _read_all_copies(node, ledger_id, metadata)
    await _read_topics(
        node, (s.topic for s in scenario.workload if isinstance(s, Produce | Publish | Consume))
    )


async def _recover(node: ClientNode, ledger_id: int) -> None:
    try:
        await node.client.open_ledger(ledger_id)
    except MetadataUnavailableError as error:
        node.recorder.record("recovery.failed", ledger_id, error=type(error).__name__)
        raise


async def _remaining_marks(node: ClientNode) -> list[int]:
    """Wait for repairs to finish and return the ledgers that are still marked as
    under-replicated.
    """
    underreplication = LedgerUnderreplicationManager(
        node.client.store, node.name, lambda _: 0, node.wall_clock_ms
    )
    # Autorecovery may still be disabled, because the operator's client died or received no
    # response.
    with suppress(UnavailableException):
        await _retry(underreplication.enable)
    ledgers: list[int] = []
    for _ in range(int(_PATIENCE_S / _RETRY_INTERVAL_S)):
        ledgers = await _retry(underreplication.ledgers)
        if not ledgers:
            break
        await asyncio.sleep(_RETRY_INTERVAL_S)
    return ledgers


async def _read_all_copies(node: ClientNode, ledger_id: int, metadata: LedgerMetadata) -> None:
    reads = BookieReads(ledger_id, metadata, node.client.context)
    sizes = metadata.ensemble_size, metadata.write_quorum
    for first in range(0, metadata.last_entry_id + 1, _BATCH_SIZE):
        done = asyncio.Event()
        waiting = 0

        def on_reply(_: str, __: int, ___: Entry | BKException, done: asyncio.Event = done) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                done.set()

        for entry_id in range(first, min(first + _BATCH_SIZE, metadata.last_entry_id + 1)):
            ensemble = metadata.ensemble_at(entry_id)
            for index in write_set(entry_id, *sizes):
                waiting += 1
                reads.ask(ensemble[index], entry_id, on_reply)
        await done.wait()


async def _read_topics(node: ClientNode, names: Iterable[str]) -> None:
    """Read each topic once. If a ledger is unreadable, record an event and skip the topic."""
    for topic in dict.fromkeys(map(full_name, names)):
        try:
            entry_count = await _read_topic(node, topic)
        except LabkitError as error:
            node.recorder.record(
                "topic.unread", topic=topic, error=type(error).__name__, explanation=str(error)
            )
        else:
            node.recorder.record("topic.read", size=entry_count, topic=topic)


async def _read_topic(node: ClientNode, topic: str) -> int:
    chain, _ = await _retry(partial(read_chain, node.client, managed_ledger_path(topic)))
    count = 0
    for ledger in chain:
        reader = await _retry(partial(node.client.open_ledger, ledger.ledger_id))
        if reader.last_add_confirmed < 0:
            continue
        for entry in await reader.read_entries(0, reader.last_add_confirmed):
            count += 1
            position = reader.ledger_id, entry.entry_id
            for message in decode_messages(entry.payload, *position, partition_of(topic)):
                producer, sequence_id = message.producer_name, message.sequence_id
                node.recorder.record(
                    "message.found",
                    *position,
                    topic=topic,
                    producer=producer,
                    sequence_id=sequence_id,
                )
                node.world.results.record(MessageRead, content_of(topic, message), *position)
    return count


async def _retry(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat `ask` until the metadata store responds."""
    while True:
        try:
            return await ask()
        except MetadataUnavailableError:
            await asyncio.sleep(_RETRY_INTERVAL_S)
