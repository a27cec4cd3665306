"""Work that is done when there is need, and at intervals."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from labkit.system.topic.chain.upkeep import Upkeep
from labkit.worlds.sim.machine.loop import SimLoop
from tests.until import until


class Work:
    """Counts how often it is done, and how often at once."""

    def __init__(self, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s
        self.count = self.at_once = self.most_at_once = 0

    async def __call__(self) -> None:
        self.count += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.lasts_s)
        self.at_once -= 1


async def test_work_is_done_at_intervals_until_the_stop() -> None:
    work = Work()
    upkeep = Upkeep(work, interval_ms=1)
    upkeep.begin()
    await until(lambda: work.count > 1)
    upkeep.stop()
    await asyncio.sleep(0.01)  # What was begun comes to its end.
    before = work.count
    upkeep.want()
    await asyncio.sleep(0.05)
    assert work.count == before


async def test_work_that_is_wanted_before_the_beginning_is_not_done() -> None:
    work = Work()
    Upkeep(work, interval_ms=1000).want()
    await asyncio.sleep(0.01)
    assert work.count == 0


async def test_work_that_is_wanted_while_it_is_done_is_done_once_more_behind_it() -> None:
    work = Work(lasts_s=0.01)
    upkeep = Upkeep(work, interval_ms=60_000)
    upkeep.begin()
    upkeep.want()
    await asyncio.sleep(0)
    for _ in range(3):
        upkeep.want()
    await asyncio.sleep(0.1)
    assert (work.count, work.most_at_once) == (2, 1)
    upkeep.want()
    await asyncio.sleep(0.1)
    assert work.count == 3
    upkeep.stop()


class TimedWork:
    """Notes when it begins, in virtual time."""

    def __init__(self, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s
        self.times: list[float] = []

    async def __call__(self) -> None:
        self.times.append(round(asyncio.get_running_loop().time(), 6))
        await asyncio.sleep(self.lasts_s)


def run(rule: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await rule()

    SimLoop(time_limit_s=1000).run(main())


def test_first_interval_begins_with_the_beginning_and_each_is_as_long() -> None:
    async def rule() -> None:
        work = TimedWork()
        upkeep = Upkeep(work, interval_ms=5000)
        await asyncio.sleep(7)
        upkeep.begin()
        await asyncio.sleep(16)
        assert work.times == [12.0, 17.0, 22.0]
        upkeep.stop()
        await asyncio.sleep(100)
        assert len(work.times) == 3

    run(rule)


def test_work_that_is_wanted_between_two_intervals_moves_none_of_them() -> None:
    async def rule() -> None:
        work = TimedWork()
        upkeep = Upkeep(work, interval_ms=5000)
        upkeep.begin()
        await asyncio.sleep(3)
        upkeep.want()
        await asyncio.sleep(8)
        assert work.times == [3.0, 5.0, 10.0]
        upkeep.stop()

    run(rule)


def test_work_that_takes_longer_than_the_interval_is_done_again_at_once_and_once() -> None:
    async def rule() -> None:
        work = TimedWork(lasts_s=12)
        upkeep = Upkeep(work, interval_ms=5000)
        upkeep.begin()
        await asyncio.sleep(30)
        assert work.times == [5.0, 17.0, 29.0]
        upkeep.stop()

    run(rule)


@pytest.mark.parametrize("begins", [False, True])
def test_upkeep_may_be_stopped_more_than_once_and_before_its_beginning(begins: bool) -> None:
    async def rule() -> None:
        work = TimedWork()
        upkeep = Upkeep(work, interval_ms=5000)
        if begins:
            upkeep.begin()
        for _ in range(2):
            upkeep.stop()
        upkeep.want()
        await asyncio.sleep(20)
        assert work.times == []

    run(rule)
