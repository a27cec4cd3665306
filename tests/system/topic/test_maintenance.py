"""Tests for maintenance work that runs when requested and at intervals."""

import asyncio
import gc

import pytest

from labkit.system.topic.maintenance import MaintenanceTask
from tests.until import until
from tests.virtual_time import in_virtual_time


class TimedWork:
    """Records when each run starts, and that no two runs overlap."""

    def __init__(self, lasts_s: float = 0.0) -> None:
        self.lasts_s = lasts_s
        self.times: list[float] = []
        self._is_running = False

    async def __call__(self) -> None:
        assert not self._is_running
        self._is_running = True
        self.times.append(round(asyncio.get_running_loop().time(), 6))
        await asyncio.sleep(self.lasts_s)
        self._is_running = False


@in_virtual_time
async def test_first_interval_begins_with_the_beginning_and_each_is_as_long() -> None:
    work = TimedWork()
    task = MaintenanceTask(work, interval_ms=5000)
    await asyncio.sleep(7)
    task.begin()
    await asyncio.sleep(16)
    assert work.times == [12.0, 17.0, 22.0]
    task.stop()
    await asyncio.sleep(100)
    assert len(work.times) == 3


@in_virtual_time
async def test_work_that_is_wanted_between_two_intervals_moves_none_of_them() -> None:
    work = TimedWork()
    task = MaintenanceTask(work, interval_ms=5000)
    task.begin()
    await asyncio.sleep(3)
    task.trigger()
    await asyncio.sleep(8)
    assert work.times == [3.0, 5.0, 10.0]
    task.stop()


@in_virtual_time
async def test_work_that_takes_longer_than_the_interval_is_done_again_at_once_and_once() -> None:
    work = TimedWork(lasts_s=12)
    task = MaintenanceTask(work, interval_ms=5000)
    task.begin()
    await asyncio.sleep(30)
    assert work.times == [5.0, 17.0, 29.0]
    task.stop()


@pytest.mark.parametrize("begins", [False, True])
@in_virtual_time
async def test_upkeep_may_be_stopped_more_than_once_and_before_its_beginning(begins: bool) -> None:
    work = TimedWork()
    task = MaintenanceTask(work, interval_ms=5000)
    if begins:
        task.begin()
    for _ in range(2):
        task.stop()
    task.trigger()
    await asyncio.sleep(20)
    assert work.times == []


@in_virtual_time
async def test_work_that_is_wanted_while_it_is_done_is_done_once_more_behind_it() -> None:
    work = TimedWork(lasts_s=10)
    task = MaintenanceTask(work, interval_ms=60_000)
    task.begin()
    task.trigger()
    await asyncio.sleep(3)
    for _ in range(3):
        task.trigger()
    await asyncio.sleep(27)
    assert work.times == [0.0, 10.0]
    task.trigger()
    await asyncio.sleep(1)
    assert work.times == [0.0, 10.0, 30.0]
    task.stop()


async def test_work_that_fails_once_is_done_again_when_triggered() -> None:
    reported: list[BaseException] = []
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    failures = [ZeroDivisionError()]

    async def work() -> None:
        if failures:
            raise failures.pop()
        done.set()

    task = MaintenanceTask(work, interval_ms=1_000_000)
    task.begin()
    task.trigger()
    await until(lambda: not failures)
    task.trigger()
    await done.wait()
    gc.collect()  # asyncio reports an exception when it deletes the task.
    assert [type(error) for error in reported] == [ZeroDivisionError]
    task.stop()


@in_virtual_time
async def test_work_that_is_wanted_before_the_beginning_is_done_at_the_beginning() -> None:
    work = TimedWork()
    task = MaintenanceTask(work, interval_ms=5000)
    task.trigger()
    await asyncio.sleep(1)
    task.begin()
    await asyncio.sleep(1)
    assert work.times == [1.0]
    task.stop()
