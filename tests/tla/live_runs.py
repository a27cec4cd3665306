"""Small runs of real processes, which TLC checks.

All nodes run on one machine and use the same clock, so each event in the trace comes after its
cause.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import groupby
from operator import attrgetter

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import BKLedgerFencedException
from labkit.system.trace.events import Event
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.tla.ledger_states import Run, run_of

BOOKIES = 4
_ONE_STEP_US = 200
"""A client that is not waiting for anything reports its next event within this time."""
_ARRIVALS = {"add.acked", "add.failed", "fence.answered", "fence.failed", "read.done"}

_Story = Callable[[LocalCluster, BookKeeper, BookKeeper], Awaitable[None]]


async def _plain_write(cluster: LocalCluster, w: BookKeeper, x: BookKeeper) -> None:
    writer = await w.create_ledger(3, 3, 2)
    for payload in (b"0", b"1"):
        await writer.add(payload)
    await cluster.settled()
    await writer.close()


async def _ensemble_change(cluster: LocalCluster, w: BookKeeper, x: BookKeeper) -> None:
    writer = await w.create_ledger(3, 3, 2)
    await writer.add(b"0")
    await cluster.settled()
    await cluster.kill(writer.ensemble[0])
    await writer.add(b"1")
    await cluster.settled()
    await writer.close()


async def _recovery(cluster: LocalCluster, w: BookKeeper, x: BookKeeper) -> None:
    writer = await w.create_ledger(3, 3, 2)
    await writer.add(b"0")
    await cluster.settled()
    await x.open_ledger(0)
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"1")


STORIES: dict[str, _Story] = {
    "a plain write": _plain_write,
    "an ensemble change": _ensemble_change,
    "a recovery": _recovery,
}
"""Two entries; a bookie killed between two entries; a ledger recovered from a writer that keeps
writing until it is rejected.
"""


async def live_run(name: str) -> Run:
    """Run real processes and return the ledger's part of the run. Raises `NotComparable`."""
    async with LocalCluster(BOOKIES) as cluster:
        w, x = await cluster.connect("w"), await cluster.connect("x")
        await STORIES[name](cluster, w, x)
        await cluster.settled()
        return run_of(in_steps(cluster.trace.events), cluster.bookie_names)


def in_steps(events: Iterable[Event]) -> list[Event]:
    """Give all events in the same step of a node the same time, as in the simulated world."""
    of_nodes = groupby(sorted(events, key=attrgetter("node")), attrgetter("node"))
    timed = [event for _, own in of_nodes for event in _timed(own)]
    return sorted(timed, key=attrgetter("time_us", "node", "seq"))


def _timed(own: Iterable[Event]) -> Iterator[Event]:
    begun_us = before_us = 0
    for event in own:
        if event.kind in _ARRIVALS or event.time_us - before_us >= _ONE_STEP_US:
            begun_us = event.time_us
        before_us = event.time_us
        yield event._replace(time_us=begun_us)
