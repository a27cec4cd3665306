"""Managed ledgers in the simulated world. A story is the code that one client runs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import pytest

from labkit.system.check import broken, check_all
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.topic.append_queue import AwaitedEntry
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.chain.ledger_chain import NOWHERE, Position
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.cursors.formats import CursorNode, decode_cursor_node
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import managed_ledger_path
from labkit.system.trace.sentence import how_it_ended
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment
from labkit.worlds.sim.trace import Trace
from tests.processor_time import processor_time
from tests.virtual_time import in_world

TOPIC = "persistent://public/default/t"
PATH = managed_ledger_path(TOPIC)
NODE = f"{PATH}/s"
"""The node of cursor `s`."""
SMALL = ManagedLedgerConfig(max_entries_per_ledger=5)

FAILURES: list[BaseException] = []
"""The assertion errors raised by the stories of the current run."""

_GOOD_ENDS = ("done", "its node died", "its node is down")

Tell = Callable[[BookKeeper], Awaitable[None]]


@dataclass(frozen=True, slots=True, repr=False)
class Story(Value):
    """A step that runs a test's coroutine."""

    tell: Tell
    client: str = "p"
    when: Moment = START
    ledger: int = -1

    def __str__(self) -> str:
        return "story"

    async def run(self, node: ClientNode) -> None:
        try:
            await self.tell(node.client)
        except (AssertionError, pytest.fail.Exception) as error:
            FAILURES.append(error)
            raise LabkitError("the test has failed") from error


def simulate(
    *stories: Story, faults: tuple[Fault, ...] = (), bad_weather: int | None = None
) -> Trace:
    """Run the stories and check that each one completes unless its node dies, and that no promise
    is broken.

    `bad_weather` is the seed of a storm of random faults; if it is given, not every story has to
    complete.

    The bookies' garbage collection is disabled: a bookie that has collected a deleted ledger,
    including its fence, accepts entries from an owner that was asleep in the meantime, as
    BookKeeper's bookies do.
    """
    cluster = Cluster(4, gc_wait_time_ms=1_000_000)
    scenario = Scenario(cluster, stories, faults, ends_in_power_cut=False)
    if bad_weather is not None:
        scenario = storm(scenario, bad_weather, 5, 300)
    FAILURES.clear()
    with processor_time():
        trace = run(scenario)
    for failure in FAILURES:
        raise failure
    failed = [e.explanation for e in trace.events if e.kind == "node.failed"]
    assert failed == [], failed
    ends = [how_it_ended(e) for e in trace.events if e.kind == "step.ended"]
    assert len(ends) == len(stories) or bad_weather is not None, ends
    odd = [end for end in ends if end not in _GOOD_ENDS]
    assert odd == [], odd
    found = broken(check_all(trace))
    assert found == [], found
    return trace


def tell(tell: Tell) -> Trace:
    """Run one client's story without any faults."""
    return simulate(Story(tell))


in_simulation = in_world(tell)
"""Turns one client's story into a test."""


async def opened(client: BookKeeper, config: ManagedLedgerConfig = SMALL) -> ManagedLedger:
    ledger = ManagedLedger(TOPIC, PATH, client, config)
    await ledger.open()
    return ledger


async def append_all(
    ledger: ManagedLedger, entries: Sequence[bytes]
) -> list[asyncio.Future[Position]]:
    """Append entries with a single call, and return their futures."""
    awaited = [AwaitedEntry(data) for data in entries]
    await ledger.append_entries(awaited)
    return [entry.stored for entry in awaited]


async def stored(ledger: ManagedLedger, first: int, last: int) -> list[Position]:
    """Append entries with these numbers, wait until all are confirmed, and return their
    positions.
    """
    futures = await append_all(ledger, [b"%d" % number for number in range(first, last)])
    return [await future for future in futures]


async def all_entries(
    ledger: ManagedLedger, start: Position = NOWHERE, at_once: int = 4
) -> list[StoredEntry]:
    """Return all entries from `start` on."""
    found: list[StoredEntry] = []
    while entries := await ledger.read(start, at_once, 1000):
        found += entries
        ledger_id, entry_id = entries[-1].position
        start = ledger_id, entry_id + 1
    return found


async def read_all(ledger: ManagedLedger, start: Position = NOWHERE) -> list[int]:
    """Return the numbers of all entries from `start` on."""
    return [int(entry.data) for entry in await all_entries(ledger, start)]


async def node_of(client: BookKeeper, path: str = NODE) -> CursorNode:
    data, _ = await client.store.get(path)
    return decode_cursor_node(data)


def found_by(cursor: ManagedCursor, positions: Sequence[Position]) -> list[int]:
    return [number for number, each in enumerate(positions) if cursor.is_acknowledged(each)]


async def with_cursor(
    client: BookKeeper, entries: int = 10, **config: int
) -> tuple[ManagedLedger, ManagedCursor, list[Position]]:
    ledger = await opened(client, replace(SMALL, **config))
    cursor = await ledger.open_cursor("s", "earliest")
    return ledger, cursor, await stored(ledger, 0, entries)
