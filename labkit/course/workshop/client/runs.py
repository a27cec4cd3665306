"""Scenarios of the track: small clusters for trying every message order, and storms from seeds.

Node names have the same meaning in all scenarios: w writes, q reads while w is writing, and r and s
recover the ledger.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace

from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.faults import BitRot, Crash, Delay, Fault, Partition, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, At, Moment, On
from labkit.worlds.sim.workload.steps import Read, Recover, Step, Write, payload

SIZES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (5, 3, 2), (3, 3, 3), (2, 2, 1))
"""Ensemble size, write quorum and ack quorum of the storms, used in turn."""


def write(entries: int, sizes: tuple[int, int, int] = (3, 3, 2), **fields: float) -> Write:
    """Return a workload step that writes entries and leaves the ledger open."""
    ensemble, write_quorum, ack_quorum = sizes
    step = Write(0, entries, ensemble, write_quorum, ack_quorum, close=False)
    return replace(step, **fields)  # type: ignore[arg-type]


def quiet(*steps: Step, bookies: int = 3, faults: tuple[Fault, ...] = ()) -> Scenario:
    """Return a scenario that has only the given faults, and no power cut at the end."""
    return Scenario(Cluster(bookies), steps, faults, ends_in_power_cut=False, limit_s=20.0)


# Writers

ONE_ADD = quiet(write(1))
TWO_ADDS = quiet(write(2, window=1))
STRIPED = quiet(write(12, (5, 3, 2), window=10), bookies=5)
ONE_IS_DOWN = quiet(write(6), faults=(Crash("b1", when=At(0.0)),))
ONE_IS_LATE = quiet(
    write(6, (3, 2, 2), window=6),
    faults=(Delay("w", "b1", 8.0, 4.0), Delay("b0", "w", 3.0, 6.0)),
)
"""Responses arrive out of order: entries that need b1 are acknowledged last."""
ONE_OF_TWO_IS_LATE = quiet(
    write(2, (2, 2, 2), window=2), bookies=2, faults=(Delay("w", "b1", 9.0),)
)


# Readers of an open ledger

FOLLOWED = quiet(write(10, window=2, every_ms=1.0), Read(client="q", polls=6, poll_ms=3.0))
FOLLOWED_STRIPED = quiet(
    write(10, (4, 2, 2), window=2, every_ms=1.0),
    Read(client="q", polls=6, poll_ms=3.0),
    bookies=4,
)
READ_LATE = quiet(write(8, (3, 3, 2)), Read(client="q", when=At(30.0)))
ONE_ANSWERS_LATE = quiet(
    write(8), Read(client="q", when=At(30.0)), faults=(Delay("b2", "q", 40.0),)
)
"""The responses from b0 and b1 are enough."""
READ_AT_ANY_MOMENT = quiet(
    write(2, (2, 2, 2), window=1), Read(client="q", when=On("add.pushed", 2)), bookies=2
)


READ_BEFORE_ALL = quiet(
    write(2, window=1, pause_ms=30.0), Read(client="q", when=On("ledger.created"))
)
"""The reader starts before any bookie has received an entry of the ledger."""


def one_knows_the_last() -> Scenario:
    """Qa is 1; only b2 has the newest entry, and b2 is the last to respond."""
    faults = Partition(("w",), ("b0",)), Delay("b2", "q", 6.0)
    step = write(6, (3, 2, 1), window=1)
    return quiet(step, Read(client="q", when=At(100.0)), faults=faults)


def one_knows_nothing() -> Scenario:
    """b0, which responds first, has no entries; b1 and b2 have all of them."""
    faults = (Partition(("w",), ("b0",)), Delay("b1", "q", 4.0), Delay("b2", "q", 4.0))
    return quiet(write(6), Read(client="q", when=At(30.0)), faults=faults)


def some_are_silent() -> Scenario:
    """Two of three bookies are down, and the third has received no entries of the ledger."""
    down = Crash("b1", when=At(20.0)), Crash("b2", when=At(20.0))
    faults = (Partition(("w",), ("b0",)), *down)
    return quiet(write(6), Read(client="q", when=At(30.0)), faults=faults)


def a_copy_is_damaged() -> Scenario:
    """b0's entry log is corrupt, so b0 cannot read its copies."""
    rot = [BitRot("b0", "entry log", part / 20, At(400.0)) for part in range(20)]
    faults: tuple[Fault, ...] = (Crash("b0", down_ms=50.0, when=At(300.0)), *rot)
    return quiet(write(8), Read(client="q", when=At(500.0)), faults=faults)


# Writers whose bookies fail

ONE_MAY_CRASH = quiet(write(1, (2, 2, 2)), bookies=3)


def two_fail_together() -> Scenario:
    """Both bookies must acknowledge each entry (Qa = 2); both die while all adds are in flight."""
    when = On("add.sent", 1)
    faults = Crash("b0", when=when), Crash("b1", when=when)
    return quiet(write(3, (2, 2, 2)), bookies=4, faults=faults)


def one_fails_in_the_middle() -> Scenario:
    """b1 dies after some entries have been confirmed."""
    faults = (Crash("b1", when=On("lac.advanced", 3)),)
    return quiet(write(8, (3, 2, 2), window=3), bookies=4, faults=faults)


def one_fails_late() -> Scenario:
    """b2 responds first, and dies while the two others are still working on the same entries."""
    slow = Delay("w", "b0", 6.0, 12.0), Delay("w", "b1", 6.0, 12.0)
    faults = (*slow, Crash("b2", when=At(7.0)))
    return quiet(write(5, window=5, every_ms=1.5), bookies=4, faults=faults)


NONE_IS_LEFT = quiet(
    write(4, (2, 2, 2), window=1), bookies=2, faults=(Crash("b1", when=On("lac.advanced", 1)),)
)
"""Both bookies must acknowledge each entry (Qa = 2); b1 dies, and no third bookie exists."""


def confirmed_late() -> Scenario:
    """b1 acknowledges six entries and dies during the ensemble change.

    b0's acknowledgements of the same entries arrive while the metadata with the new ensemble, which
    starts at entry 0, is being stored.
    """
    begin = On("add.pushed", 1)
    faults = (
        Delay("b0", "w", 11.0, when=begin),
        Delay("w", "zk", 12.0, when=begin),
        Crash("b1", when=On("add.acked", 2)),
    )
    return quiet(write(10, (3, 2, 2), window=10, every_ms=3.0), bookies=4, faults=faults)


# Ledgers that change hands


@dataclass(frozen=True, slots=True, repr=False)
class CloseAtOnce(Value):
    """A step that creates a ledger, adds entries, and closes the ledger without waiting for the
    adds.
    """

    entries: int = 4
    client: str = "w"
    when: Moment = START

    def __str__(self) -> str:
        return f"add {self.entries} entries and close at once"

    async def run(self, node: ClientNode) -> None:
        """Run the step, in which adds are expected to fail. Raises `LabkitError` if another
        operation fails.
        """
        writer = await node.client.create_ledger(3, 3, 2)
        node.ledgers.created(0, writer.ledger_id)
        adds = [writer.add(payload(0, number, 32)) for number in range(self.entries)]
        await asyncio.sleep(0.002)
        await writer.close()
        await asyncio.gather(*adds, return_exceptions=True)


CLOSED_AT_ONCE = quiet(CloseAtOnce())
CLOSED_UNHEARD = quiet(
    CloseAtOnce(),
    faults=(Partition(("w",), ("b0", "b1", "b2"), when=On("add.pushed")),),
)
"""No bookie receives any of the entries."""
CLOSES_LATE = quiet(
    write(4, window=2, close=True),
    Recover(when=On("lac.advanced", 4)),
    faults=(Delay("w", "zk", 20.0, when=On("lac.advanced", 4)),),
)
"""The writer and a recovery close the ledger at the same time."""
NOTHING_WRITTEN = quiet(
    write(1, pause_ms=50.0),
    Recover(when=At(20.0)),
    faults=(Crash("w", when=At(15.0)),),
)
CLOSED_BEFORE = quiet(write(4, close=True), Recover(when=At(30.0)))

TAKEN = quiet(
    write(9, window=3, every_ms=1.0, close=True),
    Recover(when=At(9.0)),
    faults=(Pause("w", 15.0, At(7.0)),),
)
"""The writer is only paused, and resumes after its ledger has been recovered."""
CLOSED = quiet(write(6, window=3, close=True))
ONE_TAKES_IT = quiet(write(1, (2, 2, 1), close=True), Recover(when=On("add.pushed")), bookies=2)
ONE_IS_TAKEN = quiet(write(1, (2, 2, 1)), Recover(when=On("add.pushed")), bookies=2)
DIES = quiet(
    write(9, window=3, every_ms=0.4),
    Recover(when=At(12.0)),
    faults=(Crash("w", when=On("lac.advanced", 4)),),
)
LONG_DEAD = quiet(
    write(40, window=40), Recover(when=At(50.0)), faults=(Crash("w", when=On("lac.advanced", 3)),)
)


def silent_bookie() -> Scenario:
    """b0 and b1 acknowledged the last entry, and b2 never received it.

    When r looks for the entry, b1 is down and b0 does not respond for a while.
    """
    faults = (
        Partition(("w",), ("b2",), when=On("add.pushed", 4)),
        Crash("w", when=At(18.0)),
        Crash("b1", when=At(20.0)),
        Pause("b0", 18_000.0, On("recovery.covered")),
    )
    return quiet(write(4, window=1), Recover(when=At(30.0)), faults=faults)


def one_is_down_for_good() -> Scenario:
    """b1 is down when r looks for the end; b0 and b2 have all entries."""
    faults = Crash("w", when=At(18.0)), Crash("b1", when=At(20.0))
    return quiet(write(4, window=1), Recover(when=At(30.0)), faults=faults)


def found_once() -> Scenario:
    """Only b0 has the last entry."""
    faults = (
        Partition(("w",), ("b1", "b2"), when=On("add.pushed", 4)),
        Crash("w", when=At(25.0)),
    )
    return quiet(write(4, window=1, every_ms=4.0), Recover(when=At(40.0)), faults=faults)


def both_restart() -> Scenario:
    """Both bookies restart when r starts its recovery, and the writer looks for replacements while
    r is paused.
    """
    start = On("recovery.started")
    gone = Crash("b0", down_ms=100.0, when=start), Crash("b1", down_ms=100.0, when=start)
    faults = (*gone, Pause("r", 300.0, start))
    steps = write(12, (2, 2, 2), window=2, every_ms=2.0), Recover(when=At(10.0))
    return quiet(*steps, bookies=4, faults=faults)


def fresh_ensemble() -> Scenario:
    """Both bookies were replaced, and the writer died before the new ones received anything."""
    at_third = On("lac.advanced", 3)
    faults = (
        Delay("w", "b2", 50.0),
        Delay("w", "b3", 50.0),
        Crash("b0", down_ms=20.0, when=at_third),
        Crash("b1", down_ms=20.0, when=at_third),
        Crash("w", when=On("ensemble.set", 2)),
    )
    steps = write(8, (2, 2, 2), window=2, every_ms=1.0), Recover(when=At(60.0))
    return quiet(*steps, bookies=4, faults=faults)


def old_bookie_is_gone() -> Scenario:
    """b1 died and was replaced, and the writer died before the new ensemble received anything.

    The LastAddConfirmed that b0 reports precedes the start of the last segment. A recovery that
    starts at this LastAddConfirmed writes an entry back to b1.
    """
    faults = (
        Crash("b1", when=On("lac.advanced", 4)),
        Partition(("w",), ("b0",), when=On("add.pushed", 5)),
        Crash("w", when=On("ensemble.set", 2)),
    )
    steps = write(8, (2, 2, 2), window=1, every_ms=4.0), Recover(when=At(60.0))
    return quiet(*steps, bookies=3, faults=faults)


def one_fence_is_slow() -> Scenario:
    """b1 does not respond to r for a while, although b1 could be the only bookie that acknowledged
    an add (Qa = 1).
    """
    faults = Crash("w", when=At(25.0)), Delay("b1", "r", 60.0)
    return quiet(
        write(4, (5, 2, 1), window=1, every_ms=4.0),
        Recover(when=At(40.0)),
        bookies=5,
        faults=faults,
    )


def lost_fence() -> Scenario:
    """b0 has the last entry, b1 receives it late, and b2 never receives it; the first request from
    r to b1 is lost.
    """
    last = On("add.pushed", 4)
    faults = (
        Delay("w", "b1", 40.0, when=last),
        Partition(("w",), ("b2",), when=last),
        Delay("b0", "w", 3.0, when=last),
        Delay("b0", "r", 6.0, when=last),
    )
    # r has read before, so its connection to b1 is already open.
    steps = write(4, window=1, every_ms=10.0), Read(client="r", when=On("add.pushed", 2))
    # Name the message to lose, because `Loss` loses no messages in a scenario without a seed.
    return replace(quiet(*steps, Recover(when=last), faults=faults), decisions={"lose r>b1 3": 1})


def cut_off_by_another() -> Scenario:
    """Only b0 has the last entry; r writes it back to b1 and dies. A reader asks b1. Then s, to
    which b2 responds first, closes the ledger before that entry.
    """
    faults = (
        Partition(("w",), ("b1", "b2"), when=On("add.pushed", 4)),
        Crash("w", when=At(25.0)),
        Delay("b1", "r", 6.0, when=At(35.0)),
        Partition(("r",), ("b2",), when=On("recovery.started")),
        Partition(("q",), ("b0", "b2")),
        Crash("r", when=At(80.0)),
        Delay("b0", "s", 6.0),
        Delay("b1", "s", 6.0),
    )
    steps = Recover(when=At(40.0)), Read(client="q", when=At(65.0))
    last = Recover(client="s", when=At(100.0))
    return quiet(write(4, (3, 3, 3), window=1, every_ms=4.0), *steps, last, faults=faults)


# Storms


def recoveries_by(*clients: str) -> tuple[Recover, ...]:
    """Return steps in which these clients recover the ledger at about the same time, possibly while
    its writer is still alive.
    """
    return tuple(
        Recover(client=name, when=At(12.0 + number)) for number, name in enumerate(clients)
    )


def storms(
    seeds: int, *more: Step, bookies: int = 5, close: bool = False, faults: int = 3
) -> Iterator[Scenario]:
    """Yield a scenario for each seed, with a writer, further steps and random faults."""
    for seed in range(seeds):
        sizes = SIZES[seed % len(SIZES)]
        step = write(12, sizes, window=6, every_ms=(0.0, 2.0)[seed % 2], close=close)
        base = Scenario(Cluster(bookies), (replace(step, when=START), *more), limit_s=20.0)
        yield storm(base, seed, faults)
