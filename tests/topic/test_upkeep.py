"""Work that is done when there is need, and at intervals."""

import asyncio

from labkit.topic.upkeep import Upkeep
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
