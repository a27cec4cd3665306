"""The event loop of the simulated world. Its clock jumps from one event to the next.

Two runs of a scenario execute the same steps in the same order. Timers that are due at the same
time fire in the order in which they were set. Tasks and futures are hashed by their creation
number, because asyncio keeps some of them in sets. The loop opens no sockets and starts no threads.
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

from labkit.system.bookie.periodic_check import PeriodicCheck
from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.interrupt import interrupt_of_this_thread
from labkit.worlds.sim.machine.process import PROCESS, Process, TaskList

TIME_LIMIT_S = 3600.0
"""The maximum virtual time of a run."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SimulationError(LabkitError):
    """The simulated world cannot continue, because the program that runs in it has a bug."""


class DeadlockError(SimulationError):
    """Every task is waiting, and no pending event will wake any of them."""


class BudgetError(SimulationError):
    """The run took too many steps or too much virtual time."""


class RefusedError(SimulationError):
    pass


class SimFuture(asyncio.Future[T]):
    _number: int

    def __hash__(self) -> int:
        # The default hash is based on the address, so the order of sets would differ between runs.
        return self._number


class SimTask(asyncio.Task[T]):
    """A task whose hash is its creation number, and which is registered with its process."""

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
    """A scheduled step. Unlike asyncio's handle, it is created by one call instead of three."""

    __slots__ = ()

    _callback: Any
    _args: Any
    _context: Context
    _repr = _source_traceback = None
    """Attributes that asyncio sets in debug mode."""

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
        # Like asyncio, release everything that the cancelled step would have used.
        self._callback = self._args = None


_Timer = tuple[float, int, SimHandle]
"""The due time, a number that orders timers that are due at the same time, and the step."""


class SimLoop(asyncio.BaseEventLoop):
    """An event loop with a virtual clock, which starts at 0.

    `event_budget` limits the number of steps of a run, and `time_limit_s` limits its virtual time.
    """

    _ready: deque[Any]
    _stopping: bool

    def __init__(self, event_budget: int = 10_000_000, time_limit_s: float = TIME_LIMIT_S) -> None:
        super().__init__()
        self.now = 0.0
        """The virtual time in seconds, which is the same for all nodes."""
        self.world = copy_context()
        """The context of code that runs outside any node."""
        self.numbers = count()
        """Numbers of tasks and futures. Timers have a separate series of numbers, so that an
        additional fault does not change the iteration order of sets of tasks.
        """
        self.event_count = 0
        """The number of steps that have run so far."""
        self.on_idle: Callable[[], bool] | None = None
        """Called before the clock advances. Returns True if it has scheduled a step that must run
        first.
        """
        self._event_budget = event_budget
        self._time_limit_s = time_limit_s
        self._timers: list[_Timer] = []
        self._timer_numbers = count()
        self._polls: list[_Timer] = []
        """Timers that usually have nothing to do when they are due."""
        self.tasks = TaskList()
        """Tasks that do not belong to a process."""
        self._processes: list[Process] = []
        self._interrupt = interrupt_of_this_thread()
        self.set_task_factory(_new_task)

    def now_us(self) -> int:
        return int(self.now * 1e6 + 0.5)

    def time(self) -> float:
        """Return the time on the clock of the calling node."""
        process = PROCESS.get()
        if process is None or process.clock.was_never_skewed:
            return self.now
        return process.clock.local(self.now)

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Schedule a step for the current time, after all steps that are already scheduled for that
        time.
        """
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
        """Schedule a step to run after `delay` seconds on the clock of the calling node."""
        process = PROCESS.get()
        if process is None or process.clock.was_never_skewed:
            return self.call_at_world_time(self.now + delay, callback, *args, context=context)
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a step for a time on the clock of the calling node."""
        process = PROCESS.get()
        if process is not None and not process.clock.was_never_skewed:
            when = process.clock.true(when)
        return self.call_at_world_time(when, callback, *args, context=context)

    def call_at_world_time(
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Schedule a step for a virtual time rather than a time on the node's own clock."""
        handle = SimHandle(when, callback, args, self, context)
        timers = self._polls if type(callback) is PeriodicCheck else self._timers
        heappush(timers, (when, next(self._timer_numbers), handle))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        future: SimFuture[Any] = SimFuture(loop=self)
        # Set the number here, because an `__init__` method would double the cost of a future.
        future._number = next(self.numbers)
        return future

    def pause(self, process: Process) -> None:
        """Stop a process until `resume` is called, as SIGSTOP does."""
        process.is_running = False

    def resume(self, process: Process) -> None:
        process.is_running = process.is_alive
        self._ready.extend(process.held_steps)
        process.held_steps = []

    def start(self, process: Process) -> None:
        """Keep a reference to a process until the end of the run, even if the process dies earlier.
        Otherwise, its tasks would be garbage-collected, and Python would run their `finally`
        blocks.
        """
        self._processes.append(process)

    def report_lost_errors(self, process: Process) -> None:
        """Report exceptions of a live process's tasks that nobody has retrieved."""
        steps = (handle._context.get(PROCESS) for handle in self._ready)
        if not process.is_alive or process.held_steps or process in steps:
            # A pending step may be about to retrieve the exception.
            return
        for task in process.tasks.unfinished():
            if task.done() and (error := task.exception()) is not None:
                name = getattr(task.get_coro(), "__qualname__", repr(task))
                self._report_error(f"{name} ended with {error!r}", error, process)

    def report_all_lost_errors(self) -> None:
        for process in self._processes:
            self.report_lost_errors(process)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run `main` to completion, and then abandon all other tasks.

        Raises `DeadlockError`, `BudgetError`, or any error from `main`. Raises `KeyboardInterrupt`
        if the thread has been asked to stop.
        """
        with without_garbage_collection():
            try:
                return self.run_until_complete(main)
            finally:
                self._end_all_tasks()
                self.close()

    def _run_once(self) -> None:
        """Run rounds until the loop is stopped. asyncio's method of this name runs a
        single round.
        """
        while True:
            self._run_round()
            if self._stopping:
                return

    def _run_round(self) -> None:
        ready = self._ready
        if not ready:
            self._advance()
        # Run only the steps that are ready now. As in asyncio, steps that are scheduled by these
        # steps run in the next round.
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context = handle._context
            process = context.get(PROCESS)
            if process is None or process.is_running:
                self.event_count += 1
                try:
                    context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - the handler reports it
                    self._report_error(repr(error), error, process)
            # Keep the steps of a paused process in order, and drop the steps of a dead process.
            elif process.is_alive:
                process.held_steps.append(handle)
        if self._interrupt.was_asked:
            raise KeyboardInterrupt
        if self.event_count > self._event_budget:
            raise BudgetError(
                f"the run reached its limit of {self._event_budget} steps at {self.now:g} s of"
                " virtual time: a task loops forever, or the scenario is too long for one run"
            )

    def _report_error(self, message: str, error: BaseException, process: Process | None) -> None:
        context = {"message": message, "exception": error, "process": process}
        self.call_exception_handler(context)

    def _advance(self) -> None:
        """Advance the clock to the next due timer, because no step is ready."""
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
            raise DeadlockError(
                f"deadlock at {self.now:g} s of virtual time: every task is waiting"
            )
        if timers and timers[0][0] > self.now:
            self.now = timers[0][0]
        now = self.now
        if now > self._time_limit_s:
            raise BudgetError(
                f"the run reached its limit of {self._time_limit_s:g} s of virtual time"
            )
        # Treat polls that are due now as ordinary steps, because an earlier step may change the
        # conditions for which they wait.
        while polls and polls[0][0] <= now:
            heappush(timers, heappop(polls))
        while timers and timers[0][0] <= now:
            ready.append(heappop(timers)[2])

    def _skip_polls(self, until: float) -> None:
        """Skip the idle polls that are due no later than `until` and before the next timer fires.
        Nothing can change before that timer, so a poll that is idle now can be skipped until then.
        A skipped poll is rescheduled for its next interval and counts as a step. A poll that is not
        idle becomes an ordinary timer.
        """
        timers, polls, numbers = self._timers, self._polls, self._timer_numbers
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

    def _end_all_tasks(self) -> None:
        """End all tasks because the run is over, including tasks that start while others end."""
        lists = [self.tasks, *(process.tasks for process in self._processes)]
        ended: set[asyncio.Task[Any]] = set()
        while remaining := [
            task for tasks in lists for task in tasks.unfinished() if task not in ended
        ]:
            for task in remaining:
                ended.add(task)
                _close_coroutine(task)
        self._timers.clear()
        self._polls.clear()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def _write_to_self(self) -> None:
        pass

    def _refuse(self, *args: Any, **options: Any) -> NoReturn:
        raise RefusedError("the simulated world does not support sockets, threads and processes")

    async def _refuse_async(self, *args: Any, **options: Any) -> NoReturn:
        self._refuse()

    run_in_executor = _refuse  # type: ignore[assignment]
    getaddrinfo = getnameinfo = sock_connect = _refuse_async
    create_connection = create_server = create_datagram_endpoint = _refuse_async
    create_unix_connection = create_unix_server = _refuse_async
    subprocess_exec = subprocess_shell = _refuse_async


def _close_coroutine(task: "asyncio.Task[Any]") -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    coroutine = task.get_coro()
    assert isinstance(coroutine, CoroutineType)
    # When a task group is cancelled, it waits for its tasks. It ends when it is cancelled again.
    for _ in range(3):
        if coroutine.cr_frame is not None:
            with suppress(RuntimeError):
                coroutine.close()


def _is_idle(poll: SimHandle) -> bool:
    """Return whether the poll would do nothing except reschedule itself one interval later."""
    process = poll._context.get(PROCESS)
    if process is not None and not (process.is_running and process.clock.was_never_skewed):
        return False
    return not poll._context.run(poll._callback.holds)


def _new_task(loop: Any, coroutine: Any, **options: Any) -> SimTask[Any]:
    return SimTask(coroutine, loop, **options)
