"""The cluster view: bookies as columns, entries as rows, and what happens to them, drawn only from
a trace.

Of a log it is a replay with a scrubber.  Of a running cluster it follows what happens and has
buttons that kill, pause and restart bookies.  It never waits for the browser and the browser never
waits for it: events go out at most `MESSAGES_PER_SECOND` times a second, and a click only puts a
command into a queue that a task of the kernel's event loop carries out.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Protocol

import traitlets

from labkit.trace.fold import FOLDED_KINDS, ClusterState, fold
from labkit.trace.log import TraceLog
from labkit.trace.sentence import COPIES, SENTENCES
from labkit.widgets.cluster_svg import LEGEND, cluster_svg, newest_ledger, summary
from labkit.widgets.feed import Feed, Message
from labkit.widgets.view import View, joined

MESSAGES_PER_SECOND = 20
QUIET_TURNS = 10
"""After so many turns without an event (half a second) the whole is kept for later views."""

COMMANDS = ("kill", "pause", "resume", "restart")


class Cluster(Protocol):
    """What the view needs of a running cluster."""

    @property
    def trace(self) -> TraceLog:
        """Everything that has happened."""

    @property
    def bookie_names(self) -> Sequence[str]:
        """The bookies, whether they run or not."""

    def kill(self, name: str) -> Awaitable[object]:
        """End the bookie's process as a crash would."""

    def pause(self, name: str) -> Awaitable[object]:
        """Stop the bookie's process; it keeps its memory."""

    def resume(self, name: str) -> Awaitable[object]:
        """Let a paused process go on."""

    def restart(self, name: str) -> Awaitable[object]:
        """Start a killed bookie again on its files."""


class ClusterView(View):
    """Shows a log or a running cluster.

    source: a `TraceLog` for a replay of what it holds now; a cluster to watch and to act on, which
    needs a running event loop (every notebook has one).
    ledger: the id of the one ledger to show.  By default the newest, and the others on request.
    """

    _esm = joined(
        "elements.js",
        "events.js",
        "cluster_fold.js",
        "player.js",
        "cluster_grid.js",
        "cluster_view.js",
    )
    _css = joined("view.css", "cluster_view.css")

    journal = traitlets.Dict().tag(sync=True)
    bookies = traitlets.List(traitlets.Unicode()).tag(sync=True)
    ledger = traitlets.Int(-1).tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    notice = traitlets.Unicode("").tag(sync=True)
    busy = traitlets.Dict().tag(sync=True)

    def __init__(self, source: TraceLog | Cluster, ledger: int | None = None) -> None:
        log = source if isinstance(source, TraceLog) else source.trace
        self._feed = Feed(FOLDED_KINDS, ledger)
        self._feed.take(log.events)
        super().__init__(
            journal=self._feed.whole(),
            ledger=-1 if ledger is None else ledger,
            words={"sentences": SENTENCES, "copies": COPIES, "legend": LEGEND},
        )
        self._tasks: list[asyncio.Task[None]] = []
        if not isinstance(source, TraceLog):
            self._attend(source)

    def state(self) -> ClusterState:
        """What the view shows at its end: the last moment of what it was given so far."""
        return fold(self._feed.events, bookies=self.bookies)

    def svg(self) -> str:
        """The picture of that moment as an SVG document."""
        state = self.state()
        return cluster_svg(state, self._shown(state))

    def close(self) -> None:
        """End the view; the cluster goes on."""
        if self._tasks:
            self._stop_listening()
        while self._tasks:
            self._tasks.pop().cancel()
        super().close()

    def __repr__(self) -> str:
        state = self.state()
        return summary(state, self._shown(state))

    def _shown(self, state: ClusterState) -> int:
        return self.ledger if self.ledger >= 0 else newest_ledger(state)

    # A running cluster

    def _attend(self, cluster: Cluster) -> None:
        self.live = True
        self.bookies = list(cluster.bookie_names)
        self._cluster = cluster
        self._commands: asyncio.Queue[Message] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._tasks = [self._loop.create_task(each) for each in (self._follow(), self._obey())]
        self._stop_listening = cluster.trace.listen(self._feed.take)
        self.on_msg(self._received)

    async def _follow(self) -> None:
        """Send what is new; when all is quiet, keep the whole for a view that opens later."""
        quiet_turns, kept = 0, True
        while True:
            await asyncio.sleep(1 / MESSAGES_PER_SECOND)
            message = self._feed.next_message()
            if message:
                self.send(message)
                quiet_turns, kept = 0, False
            elif not kept:
                quiet_turns += 1
            if quiet_turns == QUIET_TURNS:
                self.journal = self._feed.whole()
                quiet_turns, kept = 0, True

    def _received(self, _view: object, command: Message, _buffers: object) -> None:
        """A click.  It may come in any thread, and while a cell runs."""
        self._loop.call_soon_threadsafe(self._commands.put_nowait, command)

    async def _obey(self) -> None:
        while True:
            command = await self._commands.get()
            if command["do"] == "resync":
                self._resync()
            elif command["do"] in COMMANDS and command["bookie"] in self.bookies:
                await self._carry_out(command["do"], command["bookie"])

    def _resync(self) -> None:
        # Events that came meanwhile belong to the next number, so they are sent first.
        message = self._feed.next_message()
        if message:
            self.send(message)
        self.send(self._feed.whole())

    async def _carry_out(self, command: str, bookie: str) -> None:
        """Do it, and show an error, whichever it is, in the view."""
        self.notice, self.busy = "", {bookie: command}
        task = asyncio.ensure_future(getattr(self._cluster, command)(bookie))
        await asyncio.wait({task})
        error = task.exception()
        if error:
            self.notice = f"Could not {command} {bookie}: {str(error) or type(error).__name__}"
        self.busy = {}
