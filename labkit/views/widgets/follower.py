"""What makes a view follow a running cluster: one task sends what is new, another carries out what
is pressed.

Pages say when they display the view and when they end.  While no page displays it, nothing is drawn
and sent; the next page gets everything that happened meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from labkit.system.trace.log import TraceLog

MESSAGES_PER_SECOND = 20
QUIET_TURNS = 10
"""After this many turns without an event (half a second) the whole film is kept for later views."""


class LiveCluster(Protocol):
    """What a view needs from a running cluster."""

    @property
    def trace(self) -> TraceLog:
        """The cluster's trace."""

    @property
    def bookie_names(self) -> Sequence[str]:
        """All bookies, up or down."""

    def kill(self, name: str) -> Awaitable[object]:
        """Kill the bookie's process, like a crash."""

    def pause(self, name: str) -> Awaitable[object]:
        """Stop the bookie's process; it keeps its memory."""

    def resume(self, name: str) -> Awaitable[object]:
        """Let a paused process go on."""

    def restart(self, name: str) -> Awaitable[object]:
        """Start a killed bookie again on its files."""


COMMANDS = ("kill", "pause", "resume", "restart")


class Live(Protocol):
    """What follows a cluster: a view.

    waiting: what happened since the last message to the browser.
    """

    waiting: list[Any]
    notice: Any

    def send_more(self) -> None:
        """Send the browser what is waiting."""

    def keep_film(self) -> None:
        """Keep the whole film, unless it is kept already, for views that open later."""

    def answer(self, message: dict[str, Any]) -> None:
        """Do what a message of a page says."""

    def saying(self, what: str) -> AbstractContextManager[None]:
        """Say in the notice that an error ends what runs inside."""


class Follower:
    """Needs a running event loop, in which the cluster's coroutines run, too."""

    def __init__(self, view: Live, cluster: LiveCluster) -> None:
        self._view, self._cluster = view, cluster
        self._commands: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._pages: set[str] = set()
        self.displayed = asyncio.Event()
        """Cleared when the last page that displayed the view has ended."""
        self.displayed.set()
        self._loop = asyncio.get_running_loop()
        self._tasks = tuple(map(self._loop.create_task, (self._follow(), self._obey())))
        self._stop_listening = cluster.trace.listen(view.waiting.extend)

    def receive(self, message: dict[str, Any]) -> None:
        """Take a message of a page, in any thread."""
        # The cluster's methods are coroutines of that loop, and are called one after the other.
        self._loop.call_soon_threadsafe(self._commands.put_nowait, message)

    def close(self) -> None:
        """End; the cluster goes on."""
        self._stop_listening()
        for task in self._tasks:
            task.cancel()

    async def _follow(self) -> None:
        """Send what is new; when nothing happens, keep the whole film."""
        quiet_turns = 0
        with self._view.saying("This view follows the cluster no longer"):
            while True:
                await asyncio.sleep(1 / MESSAGES_PER_SECOND)
                await self.displayed.wait()
                quiet_turns = 0 if self._view.waiting else quiet_turns + 1
                if self._view.waiting:
                    self._view.send_more()
                elif quiet_turns == QUIET_TURNS:
                    self._view.keep_film()

    async def _obey(self) -> None:
        while True:
            message = await self._commands.get()
            # An error ends the task of one message; the next ones are heard.
            await asyncio.wait({asyncio.ensure_future(self._do(message))})

    async def _do(self, message: dict[str, Any]) -> None:
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
                await self._carry_out(command, bookie)
            case _:
                self._view.answer(message)

    async def _carry_out(self, command: str, bookie: str) -> None:
        """Do what the button says, and show any error in the view."""
        self._view.notice = ""
        task = asyncio.ensure_future(getattr(self._cluster, command)(bookie))
        await asyncio.wait({task})
        error = task.exception()
        if error:
            words = str(error) or type(error).__name__
            self._view.notice = f"Could not {command} {bookie}: {words}"
