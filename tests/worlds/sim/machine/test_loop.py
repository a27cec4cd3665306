"""Tests the guarantees that the event loop with a virtual clock gives to simulated code."""

import asyncio
import gc
import inspect
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.bookie.periodic_check import PeriodicCheck
from labkit.worlds.sim.machine.loop import BudgetError, DeadlockError, RefusedError, SimLoop
from labkit.worlds.sim.machine.process import NodeClock, Process
from tests.virtual_time import in_virtual_time


def running_loop() -> SimLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return loop


def new_process(name: str = "n") -> Process:
    process = Process(name, NodeClock())
    running_loop().start(process)
    return process


def test_time_passes_only_by_waiting_and_costs_nothing() -> None:
    async def main() -> float:
        begin = asyncio.get_running_loop().time()
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time() - begin

    begin = time.monotonic()
    assert SimLoop().run(main()) == 3600
    assert time.monotonic() - begin < 60


@in_virtual_time
async def test_what_is_due_together_happens_in_the_order_in_which_it_was_asked_for() -> None:
    loop = asyncio.get_running_loop()
    order: list[int] = []
    for number in range(50):
        loop.call_at(1.0, order.append, number)
    await asyncio.sleep(2)
    assert order == list(range(50))


def test_a_task_group_ends_its_tasks_in_the_same_order_in_every_run() -> None:
    async def main() -> list[int]:
        ended: list[int] = []

        async def child(number: int) -> None:
            try:
                await asyncio.sleep(1 if number == 7 else 10)
                raise ValueError
            finally:
                ended.append(number)

        async def parent() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(30):
                    group.create_task(child(number))

        with pytest.raises(ExceptionGroup):
            await parent()
        return ended

    runs = [SimLoop().run(main()) for _ in range(5)]
    assert sorted(runs[0]) == list(range(30))
    assert all(run == runs[0] for run in runs)


def test_timers_do_not_change_the_order_in_which_a_set_of_tasks_iterates() -> None:
    def order(timer_count: int) -> list[str]:
        async def main() -> list[str]:
            for _ in range(timer_count):
                asyncio.get_running_loop().call_later(1, lambda: None)
            tasks = {asyncio.create_task(asyncio.sleep(1), name=str(n)) for n in range(5)}
            return [task.get_name() for task in tasks]

        return SimLoop().run(main())

    assert all(order(timer_count) == order(0) for timer_count in range(64))


def test_waiting_for_an_event_that_cannot_happen_is_a_deadlock() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(DeadlockError):
        SimLoop().run(main())


async def go_round(pause_s: float) -> None:
    while True:  # noqa: ASYNC110 - nothing is waited for
        await asyncio.sleep(pause_s)


async def poll_in_vain() -> None:
    await PeriodicCheck(1.0, lambda: False).wait()


@pytest.mark.parametrize(
    ("main", "limit"),
    [
        pytest.param(partial(go_round, 0), "1000 steps", id="without waiting"),
        pytest.param(partial(go_round, 1), "60 s of virtual time", id="with pauses"),
        pytest.param(poll_in_vain, "60 s of virtual time", id="polls alone"),
    ],
)
def test_a_run_that_never_ends_is_stopped(
    main: Callable[[], Coroutine[Any, Any, None]], limit: str
) -> None:
    with pytest.raises(BudgetError, match=limit):
        SimLoop(event_budget=1000, time_limit_s=60).run(main())


@in_virtual_time
async def test_sockets_names_threads_and_processes_are_refused() -> None:
    loop = asyncio.get_running_loop()
    with pytest.raises(RefusedError):
        await asyncio.open_connection("localhost", 1)
    with pytest.raises(RefusedError):
        await asyncio.start_server(lambda reader, writer: None, port=0)
    with pytest.raises(RefusedError):
        await loop.getaddrinfo("localhost", 1)
    with pytest.raises(RefusedError):
        await asyncio.to_thread(time.time)
    with pytest.raises(RefusedError):
        await asyncio.create_subprocess_exec("true")


@pytest.mark.slow
@in_virtual_time
async def test_a_dead_process_is_never_resumed_and_no_finally_of_it_runs() -> None:
    done: list[str] = []

    async def work() -> None:
        try:
            done.append("begun")
            await asyncio.sleep(1)
            done.append("resumed")
        finally:
            done.append("finally")

    process = new_process()
    process.spawn(work())
    await asyncio.sleep(0.5)
    process.kill()
    gc.collect()
    await asyncio.sleep(5)
    assert list(done) == ["begun"]


def test_a_task_that_another_starts_as_the_world_ends_is_ended_with_it() -> None:
    started: list[asyncio.Task[None]] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()

        async def work() -> None:
            try:
                await asyncio.sleep(9)
            finally:
                started.append(loop.create_task(asyncio.sleep(9)))

        new_process().spawn(work())
        await asyncio.sleep(1)

    SimLoop().run(main())
    (task,) = started
    coroutine = task.get_coro()
    assert inspect.iscoroutine(coroutine)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


@in_virtual_time
async def test_what_a_dead_process_had_asked_for_does_not_happen() -> None:
    done: list[str] = []
    process = new_process()
    loop = asyncio.get_running_loop()
    process.context.run(loop.call_later, 1, done.append, "timer")
    process.kill()
    process.context.run(loop.call_soon, done.append, "callback")
    await asyncio.sleep(2)
    assert done == []


@in_virtual_time
async def test_a_paused_process_goes_on_where_it_was_with_its_timers_overdue() -> None:
    done, loop = list[float](), running_loop()

    async def work() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            done.append(loop.now)

    process = new_process()
    process.spawn(work())
    await asyncio.sleep(1.5)
    loop.pause(process)
    await asyncio.sleep(10)
    assert done == [1.0]
    loop.resume(process)
    await asyncio.sleep(10)
    assert done == [1.0, 11.5, 12.5]


@in_virtual_time
async def test_a_fast_clock_makes_time_outs_come_early() -> None:
    process, loop = new_process(), running_loop()
    process.clock.change(loop.now, 2.0, 0)

    async def work() -> tuple[float, float]:
        begin = loop.time()
        await asyncio.sleep(1)
        return loop.now, loop.time() - begin

    assert await process.spawn(work()) == (0.5, 1.0)


@given(st.data())
def test_a_wrong_clock_never_rings_before_its_time(data: st.DataObject) -> None:
    """Otherwise, a task that waits for that time would wake up and wait again endlessly."""
    clock, now = NodeClock(), 0.0
    for rate in data.draw(st.lists(st.sampled_from((0.5, 0.9, 1.0, 1.1, 2.0)), min_size=1)):
        now += data.draw(st.floats(0, 100))
        clock.change(now, rate, 0)
    due = clock.local(now) + data.draw(st.floats(0, 10))
    rings_at = clock.true(due)
    assert clock.local(rings_at) >= due
    assert rings_at >= now - 1e-9
    assert clock.local(rings_at) - due < 1e-9


def test_the_garbage_collector_is_off_while_a_world_runs_and_on_again_after_it() -> None:
    async def main() -> bool:
        return gc.isenabled()

    assert gc.isenabled()
    assert not SimLoop().run(main())
    assert gc.isenabled()


class CheckAtEachInterval(PeriodicCheck):
    """The same behaviour in a class unknown to the loop, which therefore never skips a check."""


Story = tuple[list[object], int, float]
"""The log of events in order, the number of steps, and the end time."""


HAPPENS = ("true", "true soon", "pause", "resume", "skew", "kill")


class Nodes:
    """Two nodes with polls, and a log of their events."""

    def __init__(self, loop: SimLoop, kind: type[PeriodicCheck], count: int) -> None:
        self.told: list[object] = []
        self.processes = [new_process("a"), new_process("b")]
        self._loop = loop
        self._holds = [False] * count
        self._tasks: list[asyncio.Task[None]] = []
        self._polls = [kind(1.0, partial(self._holds.__getitem__, at)) for at in range(count)]

    def begin(self, number: int) -> None:
        self._tasks.append(self._loop.create_task(self._act(number)))

    async def _act(self, number: int) -> None:
        while True:
            await self._polls[number].wait()
            self.told.append((number, self._loop.now))
            self._holds[number] = False

    def happen(self, what: str, number: int) -> None:
        self.told.append((what, number, self._loop.now))
        process = self.processes[number % 2]
        happens: dict[str, Callable[[], object]] = {
            "true": lambda: self._holds.__setitem__(number, True),
            # Set the condition in a callback that runs after all other callbacks due at the same
            # time.
            "true soon": lambda: self._loop.call_soon(self._holds.__setitem__, number, True),
            "pause": lambda: self._loop.pause(process),
            "resume": lambda: self._loop.resume(process),
            "skew": lambda: process.clock.change(self._loop.now, 1.5, 0),
            "kill": process.kill,
        }
        happens[what]()


def story(
    kind: type[PeriodicCheck], starts: list[int], happens: list[tuple[int, str, int]]
) -> Story:
    """Run polls and other events; times are in quarters of the polling interval."""
    loop = SimLoop()

    async def main() -> list[object]:
        nodes = Nodes(loop, kind, len(starts))
        for number, at in enumerate(starts):
            context = nodes.processes[number % 2].context
            loop.call_at(at / 4, nodes.begin, number, context=context)
        for at, what, number in happens:
            loop.call_at(at / 4, nodes.happen, what, number % len(starts))
        await asyncio.sleep(12)
        return nodes.told

    return loop.run(main()), loop.event_count, loop.now


@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=4),
    st.lists(
        st.tuples(st.integers(0, 44), st.sampled_from(HAPPENS), st.integers(0, 3)), max_size=12
    ),
)
def test_what_polls_skip_changes_nothing(
    starts: list[int], happens: list[tuple[int, str, int]]
) -> None:
    assert story(PeriodicCheck, starts, happens) == story(CheckAtEachInterval, starts, happens)


def test_polls_with_nothing_to_do_are_not_asked_at_each_interval() -> None:
    asked: list[float] = []
    loop = SimLoop()

    def never() -> bool:
        asked.append(loop.now)
        return False

    async def main() -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(1000.5):
                await PeriodicCheck(1.0, never).wait()

    loop.run(main())
    assert len(asked) == 1
    assert loop.event_count >= 1000
