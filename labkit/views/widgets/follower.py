"""Lets a view follow a running cluster: one task sends new events, and another executes commands.

Pages report when they start and stop displaying the view. While no page displays the view, nothing
is drawn or sent. The next page that displays it receives everything that has happened in the
meantime.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from labkit.system.trace.log import TraceLog

MESSAGES_PER_SECOND = 20
STOPPED = "This cluster has been stopped. The picture shows its last moments."
QUIET_TURNS = 10
"""After this many iterations without an event (half a second), the whole film is saved for pages
that open later.
"""


class LiveCluster(Protocol):
    @property
    def trace(self) -> TraceLog:
        """The cluster's trace."""

    @property
    def bookie_names(self) -> Sequence[str]:
        """The names of all bookies, up or down."""

    @property
    def is_stopped(self) -> bool:
        """Whether the cluster has been stopped."""

    def kill(self, name: str) -> Awaitable[object]:
        """Kill the bookie's process, as a crash would."""

    def pause(self, name: str) -> Awaitable[object]:
        """Stop the bookie's process without losing its memory."""

    def resume(self, name: str) -> Awaitable[object]:
        """Resume a paused process."""

    def restart(self, name: str) -> Awaitable[object]:
        """Restart a killed bookie with its existing files."""


COMMANDS = ("kill", "pause", "resume", "restart")


class Live(Protocol):
    """The part of a view that its follower uses.

    waiting: events since the last message to the browser.
    ended: why the picture no longer changes, or "".
    """

    waiting: list[Any]
    notice: Any
    ended: Any

    def send_more(self) -> None:
        """Send the waiting events to the browser."""

    def keep_film(self) -> None:
        """Save the whole film for pages that open later, unless the saved film is up to date."""

    def handle(self, message: dict[str, Any]) -> None:
        """Process a message from a page."""

    def reporting_errors(self, what: str) -> AbstractContextManager[None]:
        """Show exceptions in the notice."""


class Follower:
    """Connects a view to a cluster. A follower must be created in the event loop that runs the
    cluster's coroutines.
    """

    def __init__(self, view: Live, cluster: LiveCluster) -> None:
        self._view, self._cluster = view, cluster
        self._commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._pages: set[str] = set()
        self.displayed = asyncio.Event()
        """Set while at least one page displays the view."""
        self.displayed.set()
        self._loop = asyncio.get_running_loop()
        self._tasks = tuple(map(self._loop.create_task, (self._follow(), self._handle_messages())))
        self._stop_listening = cluster.trace.listen(view.waiting.extend)

    def receive(self, message: dict[str, Any]) -> None:
        # Hand the message over to the event loop, where the cluster's methods run one at a time.
        self._loop.call_soon_threadsafe(self._commands.put_nowait, message)

    def close(self) -> None:
        """Stop following the cluster, which keeps running."""
        self._stop_listening()
        for task in self._tasks:
            task.cancel()

    async def _follow(self) -> None:
        """Send new events; if none have arrived for a while, save the whole film."""
        quiet_turns = 0
        with self._view.reporting_errors("This view no longer follows the cluster"):
            while True:
                await asyncio.sleep(1 / MESSAGES_PER_SECOND)
                await self.displayed.wait()
                self._view.ended = STOPPED if self._cluster.is_stopped else ""
                quiet_turns = 0 if self._view.waiting else quiet_turns + 1
                if self._view.waiting:
                    self._view.send_more()
                elif quiet_turns == QUIET_TURNS:
                    self._view.keep_film()

    async def _handle_messages(self) -> None:
        while True:
            message = await self._commands.get()
            # Handle the message in a task, so that an exception affects only this message.
            await asyncio.wait({asyncio.ensure_future(self._handle(message))})

    async def _handle(self, message: dict[str, Any]) -> None:
        match message:
            case {"do": "display", "on": str(page)}:
                self._pages.add(page)
                self._view.keep_film()
                self.displayed.set()
            case {"do": "end", "on": str(page)}:
                self._pages.discard(page)
                if not self._pages:
                    self.displayed.clear()
            case {"do": command, "on": bookie} if (
                command in COMMANDS and bookie in self._cluster.bookie_names
            ):
                await self._run_command(command, bookie)
            case _:
                self._view.handle(message)

    async def _run_command(self, command: str, bookie: str) -> None:
        self._view.notice = ""
        task = asyncio.ensure_future(getattr(self._cluster, command)(bookie))
        await asyncio.wait({task})
        error = task.exception()
        if error:
            words = str(error) or type(error).__name__
            self._view.notice = f"Could not {command} {bookie}: {words}"
