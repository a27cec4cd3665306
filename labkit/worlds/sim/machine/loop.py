"""The event loop of the simulated world: time jumps to the next thing that happens.

Everything in it happens in the same order in every run: timers that are due together go in the
order in which they were set, and tasks and futures hash by their creation number, since asyncio
keeps some of them in sets.  The loop opens no sockets and no threads.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, copy_context
from heapq import heappop, heappush, heapreplace
from itertools import count
from math import inf
from types import CoroutineType
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from labkit.system.bookie.poll import Poll
from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.interrupt import interrupt_of_this_thread
from labkit.worlds.sim.machine.process import PROCESS, Process, TaskList

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SimulationError(LabkitError):
    """The simulated world cannot go on: a mistake of the program that runs in it."""


class DeadlockError(SimulationError):
    """Every task waits, and nothing is under way that could wake one."""


class BudgetError(SimulationError):
    """Too many steps, or too much virtual time: a task has no end, or much too much to do."""


class RefusedError(SimulationError):
    """The simulated world has no such thing: no socket, no thread, no process."""


class SimFuture(asyncio.Future[T]):
    """A future that hashes by its creation number."""

    _number: int

    def __hash__(self) -> int:
        # By default it is an address: the order of a set would differ from run to run.
        return self._number


class SimTask(asyncio.Task[T]):
    """A task that hashes by its creation number, and that its process knows."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T],
        loop: "SimLoop",
        context: Context | None = None,
        **options: Any,
    ) -> None:
        self._number = next(loop.numbers)
        super().__init__(coroutine, loop=loop, context=context, **options)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        (loop.tasks if process is None else process.tasks).add(self)

    def __hash__(self) -> int:
        return self._number


class SimHandle(asyncio.TimerHandle):
    """A step that waits for its turn: asyncio's own, made in one call instead of three."""

    __slots__ = ()

    _callback: Any
    _args: Any
    _context: Context
    _repr = _source_traceback = None
    """What asyncio fills in debug mode."""

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: "SimLoop",
        context: Context | None,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True
        # As asyncio does: what a cancelled step would have used can go.
        self._callback = self._args = None


_Timer = tuple[float, int, SimHandle]
"""When it is due, and its number, by which timers that are due together are ordered."""


class SimLoop(asyncio.BaseEventLoop):
    """An event loop with a virtual clock, which starts at 0.

    `event_budget` bounds the steps of a run and `time_limit_s` its virtual time.
    """

    _ready: deque[Any]
    _stopping: bool

    def __init__(self, event_budget: int = 10_000_000, time_limit_s: float = 86_400.0) -> None:
        super().__init__()
        self.now = 0.0
        """Virtual time in seconds, the same for all nodes."""
        self.world = copy_context()
        """The context of code that runs outside of all nodes."""
        self.numbers = count()
        self.event_count = 0
        """Steps run so far."""
        self.on_idle: Callable[[], bool] | None = None
        """Called before time moves on; returns True when it made something happen now."""
        self._event_budget = event_budget
        self._time_limit_s = time_limit_s
        self._timers: list[_Timer] = []
        self._polls: list[_Timer] = []
        """Timers, too, but most of them have nothing to do when they are due."""
        self.tasks = TaskList()
        """Tasks that belong to no process."""
        self._processes: list[Process] = []
        self._interrupt = interrupt_of_this_thread()
        self.set_task_factory(_new_task)

    def now_us(self) -> int:
        """Virtual time in microseconds, as the trace has it."""
        return int(self.now * 1e6 + 0.5)

    def time(self) -> float:
        """The time on the calling node's clock."""
        process = PROCESS.get()
        if process is None or process.clock.is_right:
            return self.now
        return process.clock.local(self.now)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Schedule for now, after all that is to happen now already."""
        handle = SimHandle(self.now, callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule in `delay` seconds of the calling node's clock."""
        process = PROCESS.get()
        if process is None or process.clock.is_right:
            return self.call_true(self.now + delay, callback, *args, context=context)
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule at a time of the calling node's clock."""
        process = PROCESS.get()
        if process is not None and not process.clock.is_right:
            when = process.clock.true(when)
        return self.call_true(when, callback, *args, context=context)

    def call_true(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule at true (world) time, not the node's clock."""
        handle = SimHandle(when, callback, args, self, context)
        timers = self._polls if type(callback) is Poll else self._timers
        heappush(timers, (when, next(self.numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        future: SimFuture[Any] = SimFuture(loop=self)
        # Not in a method `__init__`, which would double what a future costs.
        future._number = next(self.numbers)
        return future

    def pause(self, process: Process) -> None:
        """Stop a process until `resume`, as SIGSTOP does."""
        process.runs = False

    def resume(self, process: Process) -> None:
        """Let a paused process go on, with all that waited meanwhile."""
        process.runs = process.is_alive
        self._ready.extend(process.held)
        process.held = []

    def start(self, process: Process) -> None:
        """Keep a process, dead or alive, to the end of the run: if Python forgot its tasks, it
        would run their `finally`.
        """
        self._processes.append(process)

    def report_lost_errors(self, process: Process) -> None:
        """Report each error that ended a task of a living process and that nothing has taken."""
        steps = (handle._context.get(PROCESS) for handle in self._ready)
        if not process.is_alive or process.held or process in steps:
            # One of these steps may be about to take it.
            return
        for task in process.tasks.take():
            if task.done() and (error := task.exception()) is not None:
                name = getattr(task.get_coro(), "__qualname__", repr(task))
                self._tell_error(f"{name} ended with {error!r}", error, process)

    def report_all_lost_errors(self) -> None:
        """The same for all processes."""
        for process in self._processes:
            self.report_lost_errors(process)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to its end, then forget everything else.  Raises what `main` raises,
        `DeadlockError`, `BudgetError`, and `KeyboardInterrupt` when its thread should stop.
        """
        with without_garbage_collection():
            try:
                return self.run_until_complete(main)
            finally:
                self._forget()
                self.close()

    def _run_once(self) -> None:
        """Run steps until the loop is to stop: not one round of them, as asyncio has it."""
        while True:
            self._run_round()
            if self._stopping:
                return

    def _run_round(self) -> None:
        ready = self._ready
        if not ready:
            self._advance()
        # Only what is ready now: what these steps make ready comes after them, as in asyncio.
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context = handle._context
            process = context.get(PROCESS)
            if process is None or process.runs:
                self.event_count += 1
                try:
                    context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - the handler reports it
                    self._tell_error(repr(error), error, process)
            # Paused: the step is kept in its order.  Of a dead process it is forgotten.
            elif process.is_alive:
                process.held.append(handle)
        if self._interrupt.was_asked:
            raise KeyboardInterrupt
        if self.event_count > self._event_budget:
            raise BudgetError(
                f"{self._event_budget} steps, the most in a run, led to second {self.now:g} of"
                " virtual time: a task loops without end, or the scenario is too long for one run"
            )

    def _tell_error(self, message: str, error: BaseException, process: Process | None) -> None:
        context = {"message": message, "exception": error, "process": process}
        self.call_exception_handler(context)

    def _advance(self) -> None:
        """Go to the next moment at which something is due: nothing is left to do now."""
        timers, polls, ready = self._timers, self._polls, self._ready
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        if polls and polls[0][0] <= self.now:
            self._skip_polls(self.now)
        is_due = bool(timers) and timers[0][0] <= self.now
        if not is_due and self.on_idle is not None and self.on_idle():
            return
        if polls and not (timers and timers[0] < polls[0]):
            self._skip_polls(inf)
        if not (timers or polls):
            raise DeadlockError(f"at second {self.now:g} of virtual time every task waits for ever")
        if timers and timers[0][0] > self.now:
            self.now = timers[0][0]
        now = self.now
        if now > self._time_limit_s:
            raise BudgetError(f"{self._time_limit_s:g} s of virtual time have passed")
        # Here polls are steps like others: one that comes before them may change their answer.
        while polls and polls[0][0] <= now:
            heappush(timers, heappop(polls))
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])

    def _skip_polls(self, until: float) -> None:
        """Let polls pass that come before the next timer and have nothing to do.

        No step is run meanwhile, so one that has nothing to do has nothing to do again.
        """
        timers, polls, numbers = self._timers, self._polls, self.numbers
        limit = timers[0] if timers and timers[0][0] <= until else (until, inf)
        idle: set[int] = set()
        while polls and polls[0] < limit and self.now <= self._time_limit_s:
            when, _, handle = polls[0]
            if id(handle) not in idle:
                if handle._cancelled:
                    heappop(polls)
                    continue
                if not _is_idle(handle):
                    heappush(timers, heappop(polls))
                    return
                idle.add(id(handle))
            self.event_count += 1
            if when > self.now:
                self.now = when
            due = self.now + handle._callback.interval_s
            heapreplace(polls, (due, next(numbers), handle))

    def _forget(self) -> None:
        """End the remaining tasks, and those that they start in the end, when they can no longer
        have an effect.
        """
        lists = [self.tasks, *(process.tasks for process in self._processes)]
        ended: set[asyncio.Task[Any]] = set()
        while left := [task for tasks in lists for task in tasks.take() if task not in ended]:
            for task in left:
                ended.add(task)
                _end(task)
        self._timers.clear()
        self._polls.clear()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        raise RefusedError("the simulated world opens no sockets, threads and processes")

    async def _refuse_to_wait(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse()

    run_in_executor = _refuse  # type: ignore[assignment]
    getaddrinfo = getnameinfo = sock_connect = _refuse_to_wait
    create_connection = create_server = create_datagram_endpoint = _refuse_to_wait
    create_unix_connection = create_unix_server = _refuse_to_wait
    subprocess_exec = subprocess_shell = _refuse_to_wait


def _end(task: "asyncio.Task[Any]") -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    assert isinstance(coroutine, CoroutineType)
    # A task group waits for its tasks at the first cancellation, and ends at the second.
    for _ in range(3):
        if coroutine.cr_frame is not None:
            with suppress(RuntimeError):
                coroutine.close()


def _is_idle(poll: SimHandle) -> bool:
    """Whether it would do nothing but begin again, after the same time of the world."""
    process = poll._context.get(PROCESS)
    if process is not None and not (process.runs and process.clock.is_right):
        return False
    return not poll._context.run(poll._callback.holds)


def _new_task(loop: Any, coroutine: Any, **options: Any) -> SimTask[Any]:
    return SimTask(coroutine, loop, **options)
