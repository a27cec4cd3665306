"""One life of a node: what runs in it stops with it, and nothing of it is ever resumed.

Every task, callback and timer carries the process that it was made in (a context variable), and the
event loop asks it before each step: a running process goes on, a paused one keeps its steps for
later, a dead one's are dropped.  So a crash is one assignment, and no `finally` runs.
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
    """A node's own clock: `rate` of its seconds pass in a second of the world."""

    rate: float = 1.0
    wall_offset_ms: int = 0
    is_right: bool = True
    """Whether it has always shown the world's time."""
    _since: float = 0.0
    _at_since: float = 0.0

    def local(self, now: float) -> float:
        """The time that the node's clock shows."""
        return self._at_since + (now - self._since) * self.rate

    def true(self, local: float) -> float:
        """When the node's clock will show `local`, never a rounding error earlier: a timer would
        find that its time has not come, and be set again for the same moment, for ever.
        """
        when = self._since + (local - self._at_since) / self.rate
        while self.local(when) < local:
            when = nextafter(when, inf)
        return when

    def change(self, now: float, rate: float, wall_offset_ms: int) -> None:
        """Run at another rate from now on, with the wall clock off by that much."""
        self._at_since, self._since, self.rate = self.local(now), now, rate
        self.is_right = self.is_right and rate == 1.0
        self.wall_offset_ms = wall_offset_ms


class TaskList:
    """Tasks that have not ended, or whose error nothing has taken, oldest first."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[Any]] = []
        self._limit = 64

    def add(self, task: "asyncio.Task[Any]") -> None:
        """Keep a task; those that are through are dropped from time to time."""
        self._tasks.append(task)
        if len(self._tasks) > self._limit:
            self._limit = 64 + 2 * len(self.take())

    def take(self) -> "list[asyncio.Task[Any]]":
        # What asyncio itself looks at before it complains that an exception was never retrieved.
        self._tasks = [task for task in self._tasks if not task.done() or task._log_traceback]
        return self._tasks


class Process:
    """One life of a node."""

    def __init__(self, name: str, clock: NodeClock) -> None:
        self.name = name
        self.clock = clock
        self.is_alive = True
        self.runs = True
        """Neither dead nor paused: what the event loop looks at before each step."""
        self.tasks = TaskList()
        self.held: list[asyncio.Handle] = []
        """The steps that wait while it is paused."""
        self.at_death: list[Callable[[], None]] = []
        """Called when it dies, for the world; no code of the node itself runs."""
        self.context = copy_context()
        self.context.run(PROCESS.set, self)

    def spawn(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a task that lives and dies with this process."""
        loop = asyncio.get_running_loop()
        return loop.create_task(coroutine, context=self.context.copy())

    def kill(self) -> None:
        if self.is_alive:
            self.is_alive = self.runs = False
            self.held.clear()
            for tell in self.at_death:
                tell()


PROCESS: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process of the current step; None: a step of the world itself."""
