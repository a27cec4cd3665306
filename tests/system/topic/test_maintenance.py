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


@pytest.mark.parametrize(
    ("interval_s", "lasts_s", "calls", "times"),
    [
        pytest.param(5, 0, {7: "begin", 23: "stop"}, [12, 17, 22], id="at equal intervals"),
        pytest.param(5, 0, {0: "begin", 3: "trigger"}, [3, 5, 10, 15, 20, 25], id="when triggered"),
        pytest.param(5, 12, {0: "begin"}, [5, 17, 29], id="at once after it took too long"),
        pytest.param(5, 0, {0: "stop stop trigger"}, [], id="not after a stop without a beginning"),
        pytest.param(5, 0, {0: "begin stop stop trigger"}, [], id="not after it was stopped"),
        pytest.param(5, 0, {0: "trigger", 1: "begin stop"}, [1], id="first if triggered before"),
        pytest.param(
            60,
            10,
            {0: "begin trigger", 3: "trigger trigger trigger", 28: "trigger"},
            [0, 10, 28],
            id="once more if triggered meanwhile",
        ),
    ],
)
@in_virtual_time
async def test_work_is_done(
    interval_s: int, lasts_s: float, calls: dict[int, str], times: list[float]
) -> None:
    work, loop = TimedWork(lasts_s), asyncio.get_running_loop()
    task = MaintenanceTask(work, interval_ms=1000 * interval_s)
    for at_s, names in calls.items():
        await asyncio.sleep(at_s - loop.time())
        for name in names.split():
            getattr(task, name)()
    await asyncio.sleep(29.5 - loop.time())
    assert work.times == times


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
