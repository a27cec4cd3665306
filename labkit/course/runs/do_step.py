"""A workload step that runs a function."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.settings.triggers import START, Moment


@dataclass(frozen=True, slots=True)
class Do:
    action: Callable[[ClientNode], Coroutine[Any, Any, Any]]
    client: str = "broker"
    when: Moment = START
    tasks: list[asyncio.Task[Any]] = field(default_factory=list, compare=False)

    def __str__(self) -> str:
        return "what the lesson says"

    async def run(self, node: ClientNode) -> None:
        # Inside the simulation, an exception ends only the task that raised it.
        task = asyncio.create_task(self.action(node))
        self.tasks.append(task)
        await asyncio.wait([task])

    def result(self) -> Any:
        """Return the function's result, or None if the node died before the function returned.

        Re-raises any exception that the function raised.
        """
        ended = [task for task in self.tasks if task.done() and not task.cancelled()]
        return ended[0].result() if ended else None
