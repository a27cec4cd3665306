"""A node's process. When the process dies, everything that runs in it stops for good.

Every task, callback and timer carries the process that created it in a context variable, and the
event loop checks this process before each step. The loop executes the steps of running processes,
keeps the steps of paused processes for later, and drops the steps of dead processes. A crash is
therefore a single assignment, after which no `finally` block runs.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from math import inf, nextafter
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class NodeClock:
    """A node's own clock, which advances `rate` seconds per second of virtual time."""

    rate: float = 1.0
    wall_offset_ms: int = 0
    was_never_skewed: bool = True
    """Whether the clock has always shown the virtual time."""
    _since: float = 0.0
    _at_since: float = 0.0

    def local(self, now: float) -> float:
        return self._at_since + (now - self._since) * self.rate

    def true(self, local: float) -> float:
        """Return the virtual time at which this clock will show `local`.

        The time is rounded up, because a timer that fired slightly too early would be set for the
        same moment again and again.
        """
        when = self._since + (local - self._at_since) / self.rate
        while self.local(when) < local:
            when = nextafter(when, inf)
        return when

    def change(self, now: float, rate: float, wall_offset_ms: int) -> None:
        """From now on, let the clock run at this rate, and let the wall clock be off by
        `wall_offset_ms`.
        """
        self._at_since, self._since, self.rate = self.local(now), now, rate
        self.was_never_skewed = self.was_never_skewed and rate == 1.0
        self.wall_offset_ms = wall_offset_ms


class TaskList:
    """Tasks that are running or whose exception has not been retrieved, oldest first."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._limit = 64

    def add(self, task: "asyncio.Task[Any]") -> None:
        """Add a task, and occasionally drop finished tasks."""
        self._tasks.append(task)
        if len(self._tasks) > self._limit:
            self._limit = 64 + 2 * len(self.unfinished())

    def unfinished(self) -> "list[asyncio.Task[Any]]":
        # asyncio checks the same attribute before it logs that an exception was never retrieved.
        self._tasks = [task for task in self._tasks if not task.done() or task._log_traceback]
        return self._tasks


class Process:
    def __init__(self, name: str, clock: NodeClock) -> None:
        self.name = name
        self.clock = clock
        self.is_alive = True
        self.is_running = True
        """Whether the process is neither dead nor paused. The event loop checks this before each
        step.
        """
        self.tasks = TaskList()
        self.held_steps: list[asyncio.Handle] = []
        """Steps held back while the process is paused."""
        self.on_death: list[Callable[[], None]] = []
        """The world's callbacks, which the node calls after it has reported the death."""
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        loop = asyncio.get_running_loop()
        return loop.create_task(coroutine, context=self.context.copy())

    def kill(self) -> None:
        self.is_alive = self.is_running = False
        self.held_steps.clear()


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process of the current step, or None for steps of the world itself."""
