"""The tasks that a learner's client spawns on a cluster whose responses come from a test."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Spawning:
    """Provides `spawn`, and keeps the first error that a spawned task does not catch."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._error: BaseException | None = None

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(self._ended)
        self._tasks.append(task)  # asyncio itself keeps only weak references to tasks.

    def raise_error(self) -> None:
        """Raise the error that was kept, if there is one."""
        if self._error is not None:
            raise self._error

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and self._error is None:
            self._error = task.exception()
