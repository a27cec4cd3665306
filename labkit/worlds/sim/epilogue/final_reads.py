"""The epilogue of every run: all faults are repaired, and every entry is looked up on every bookie
that should have it, so that checks need nothing but the trace.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

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
from labkit.worlds.sim.epilogue.retry import ASK_EVERY_S, retried
from labkit.worlds.sim.epilogue.topic_reading import read_topics
from labkit.worlds.sim.nodes.bookie_node import BookieNode
from labkit.worlds.sim.nodes.broker_node import BrokerNode
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.produce import Produce
from labkit.worlds.sim.workload.publish import Publish

_PATIENCE_S = 30.0
_AT_ONCE = 512


class FinishedWorld(Protocol):
    """A world at its end: its workload has ended, and all faults are repaired."""

    @property
    def scenario(self) -> Scenario:
        """What was run."""

    @property
    def bookies(self) -> Sequence[BookieNode]:
        """All bookies."""

    @property
    def brokers(self) -> Sequence[BrokerNode]:
        """All brokers."""

    @property
    def clients(self) -> Mapping[str, ClientNode]:
        """All nodes with a client, the epilogue's included, by name."""

    @property
    def report(self) -> Callable[..., None]:
        """Adds an event that the world itself brings about."""


async def read_everything(world: FinishedWorld) -> None:
    """Cut the power, restart all but brokers, recover every ledger, then read every copy."""
    node = world.clients[EPILOGUE]
    world.report("epilogue.started", node.name)
    if world.scenario.ends_in_power_cut:
        for bookie in world.bookies:
            bookie.crash("lost")
    for broker in world.brokers:
        broker.crash(why="nothing is written any more")
    for each in (*world.bookies, *world.clients.values()):
        each.start()
    await _until_all_serve(world)
    await asyncio.wait((node.spawn(_look_up(node, world.scenario)),))


async def _until_all_serve(world: FinishedWorld) -> None:
    """Wait for the bookies that can start; one that cannot is down again by then."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_S
    while loop.time() < deadline:
        if all(bookie.serves or not bookie.is_up for bookie in world.bookies):
            return
        await asyncio.sleep(0.01)


async def _look_up(node: ClientNode, scenario: Scenario) -> None:
    await node.ready()
    ledger_ids = await retried(node.client.list_ledgers)
    if scenario.cluster.autorecovery is not None:
        node.world.answers.marked(_PATIENCE_S, await _marks_left(node))
    for ledger_id in ledger_ids:
        try:
            await retried(partial(_recover, node, ledger_id))
            metadata = await retried(partial(node.client.ledger_metadata, ledger_id))
        except LabkitError as error:
            note = f"{type(error).__name__}: {error}"
            node.recorder.record("ledger.unreadable", ledger_id, note=note)
            continue
        if metadata.state is LedgerState.CLOSED:
            await _read_all_copies(node, ledger_id, metadata)
    await read_topics(
        node, (s.topic for s in scenario.workload if isinstance(s, Produce | Publish | Consume))
    )


async def _recover(node: ClientNode, ledger_id: int) -> None:
    try:
        await node.client.open_ledger(ledger_id)
    except MetadataUnavailableError as error:
        node.recorder.record("recovery.failed", ledger_id, note=type(error).__name__)
        raise


async def _marks_left(node: ClientNode) -> list[int]:
    """Wait for autorecovery to finish the repairs that it has begun; returns the ledgers for which
    it does not.
    """
    marked = LedgerUnderreplicationManager(
        node.client.store, node.name, lambda _: 0, node.wall_clock_ms
    )
    # It is still disabled where the operator's client died, or got no answer.
    with suppress(UnavailableException):
        await retried(marked.enable)
    ledgers: list[int] = []
    for _ in range(int(_PATIENCE_S / ASK_EVERY_S)):
        ledgers = await retried(marked.ledgers)
        if not ledgers:
            break
        await asyncio.sleep(ASK_EVERY_S)
    return ledgers


async def _read_all_copies(node: ClientNode, ledger_id: int, metadata: LedgerMetadata) -> None:
    reads = BookieReads(ledger_id, metadata, node.client.context)
    sizes = metadata.ensemble_size, metadata.write_quorum
    for first in range(0, metadata.last_entry_id + 1, _AT_ONCE):
        done = asyncio.Event()
        waiting = 0

        def on_reply(_: str, __: int, ___: Entry | BKException, done: asyncio.Event = done) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                done.set()

        for entry_id in range(first, min(first + _AT_ONCE, metadata.last_entry_id + 1)):
            ensemble = metadata.ensemble_at(entry_id)
            for place in write_set(entry_id, *sizes):
                waiting += 1
                reads.ask(ensemble[place], entry_id, on_reply)
        await done.wait()
