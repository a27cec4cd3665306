"""Two promises about a metadata store that is away for a while: its silence is not an answer.

In BookKeeper: `replication/Auditor.java`, `bookie/BookieStateManager.java`; both promises are
stricter than BookKeeper's.
"""

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_GRACE_US = 10_000_000
_UNDER_WAY_US = 150_000
"""An answer from before the hang may be under way for this time."""
_UNREGISTERED_US = 2_000_000
_ANSWER_TIMEOUT_US = 17_000_000
"""A request whose answer is lost is given up after 15 seconds."""


class SilenceIsNoLoss(Check):
    """When the metadata store has hung for long enough to end sessions, no bookie that runs is
    taken for lost for ten seconds, in which it registers again, unless by an auditor that was
    started since, which cannot know of it; and no auditor ever takes the bookie of the same process
    for lost.

    As bookies speak to the store three times in a session's time-out, half of that is enough.

    Judged unless the auditor's clock was wrong: it counts those seconds.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._hung: Event | None = None
        self._session_us = 0.0
        self._resumed: Event | None = None
        self._started: dict[str, Event] = {}
        self._skewed: dict[str, Event] = {}
        self._has_auditor = False

    @on("auditor.elected")
    def elected(self, event: Event) -> None:
        """Note that bookies can be taken for lost from now on."""
        self._has_auditor = True

    @on("node.started")
    def started(self, event: Event) -> None:
        """Note since when a node runs."""
        self._started[event.node] = event

    @on("clock.skewed")
    def skewed(self, event: Event) -> None:
        """Ignore a node whose clock does not agree with the trace's."""
        self._skewed[event.node] = event

    @on("metadata.hung")
    def hung(self, event: Event) -> None:
        """Note when the outage began, and a session's time-out in seconds, which begins `note`."""
        self._hung = event
        self._session_us = float(event.note.partition(" ")[0]) * 1e6

    @on("metadata.resumed")
    def resumed(self, event: Event) -> None:
        """Begin the grace period, if sessions of bookies that run may be over."""
        hung, self._hung = self._hung, None
        if hung is None:
            return
        if event.time_us - hung.time_us > self._session_us / 2 + _UNDER_WAY_US:
            self._resumed = event
            self.judged += self._has_auditor

    @on("bookie.lost")
    def lost(self, event: Event) -> None:
        """Compare the loss with the grace period."""
        auditor, bookie, resumed = event.node, event.peer, self._resumed
        if auditor == bookie:
            self.broke(event, f"{auditor} took {bookie} for lost, the bookie of the same process")
        if resumed is None or event.time_us - resumed.time_us > _GRACE_US:
            return
        if bookie in self.facts.down:
            return
        started = self._started.get(auditor)
        if started is not None and started.seq > resumed.seq:
            self.doubt(f"{auditor} was started after the metadata store hung")
            return
        if auditor in self._skewed:
            self.doubt(f"the clock of {auditor} was wrong")
            return
        since_s = (event.time_us - resumed.time_us) / 1e6
        self.broke(
            event,
            f"{auditor} took {bookie} for lost {since_s:.3g} s after the metadata store hung, and"
            " bookies have 10 s to register again",
            resumed,
        )


class RunningBookiesStayRegistered(Check):
    """A bookie that runs and reaches the metadata store registers again within two seconds after
    its registration is gone.

    Judged where nothing else is wrong with it or its way to the store in these seconds, and only up
    to the epilogue.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._runs: dict[str, None] = {}
        """Bookies that have registered since they were started, and run."""
        self._gone: dict[str, Event] = {}
        """Those of them whose registration is gone."""
        self._given_us = 0
        """Until then none of them has to register: something else was wrong, now or before."""
        self._asks_until_us: dict[str, int] = {}
        """Until then a node may wait for an answer that was lost."""
        self._links_cut = 0

    @on("bookie.unregistered")
    def unregistered(self, event: Event) -> None:
        """Expect a bookie that runs to register again."""
        if event.node in self._runs:
            self._gone[event.node] = event

    @on("bookie.registered")
    def registered(self, event: Event) -> None:
        """Note that it did."""
        self._runs[event.node] = None
        if self._gone.pop(event.node, None) is not None:
            self.judged += 1

    @on("node.killed", "node.paused", "clock.skewed")
    def stopped(self, event: Event) -> None:
        """Expect nothing of a node that does not run as it should."""
        self._runs.pop(event.node, None)
        self._gone.pop(event.node, None)

    @on("link.cut", "link.healed", "metadata.hung", "metadata.resumed", "session.lost")
    def hindered(self, event: Event) -> None:
        """Give the full time from here on."""
        self._links_cut += {"link.cut": 1, "link.healed": -1}.get(event.kind, 0)
        self._given_us = event.time_us + _UNREGISTERED_US

    @on("message.lost", "message.swapped", "message.copied")
    def answer_lost(self, event: Event) -> None:
        """Give both ends the time after which a request without an answer is given up."""
        for node in (event.node, event.peer):
            self._asks_until_us[node] = event.time_us + _ANSWER_TIMEOUT_US

    @on("epilogue.started")
    def judge(self, event: Event) -> None:
        """Look for bookies that are still not registered."""
        for bookie, gone in self._gone.items():
            due_us = max(
                gone.time_us + _UNREGISTERED_US, self._given_us, self._asks_until_us.get(bookie, 0)
            )
            if not self._links_cut and event.time_us > due_us:
                since_s = (event.time_us - gone.time_us) / 1e6
                self.broke(
                    event,
                    f"{bookie} runs and has not been registered for {since_s:.3g} s",
                    gone,
                )
        self._gone.clear()
