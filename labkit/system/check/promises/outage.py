"""Promises about absent bookies, and about outages of the metadata store.

In BookKeeper: `replication/Auditor.java`, `bookie/BookieStateManager.java`. BookKeeper makes only
the promise that `BriefAbsenceIsNoLoss` checks (`lostBookieRecoveryDelay`).
"""

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on

NOTICE_DELAY_US = 200_000
"""The maximum time that a node needs to notice that a bookie has registered or left."""
_CLOCK_ERROR_US = 1000
"""Clocks of a live cluster agree to within a millisecond."""
_GRACE_US = 10_000_000
_IN_FLIGHT_US = 150_000
"""A response sent before the hang may still be in flight for this long."""
_REGISTER_WITHIN_US = 2_000_000
_RESPONSE_TIMEOUT_US = 17_000_000
"""A request whose response is lost times out after 15 seconds."""


class BriefAbsenceIsNoLoss(Check):
    """A bookie that is absent for less than the lost-bookie recovery delay is not declared lost.

    If this promise is broken, no data is lost, but all ledgers of the bookie are copied needlessly.
    The check applies only while exactly one bookie is absent and nobody changes the delay. The
    auditor does not wait if two bookies are absent, and a change of the delay triggers an immediate
    audit.

    The check measures an absence from the first crash, pause or lost session after the bookie's
    last registration. The auditor may notice the absence later. If the bookie came back so briefly
    that the auditor may not have noticed its return, the two absences count as one.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._delays: dict[str, tuple[float, Event]] = {}
        self._absent_since: dict[str, Event] = {}
        self._back: dict[str, Event] = {}
        self._before: dict[str, Event | None] = {}
        """For each bookie, the start of the absence that ended with its last registration."""

    @on("auditor.delay")
    def delay_read(self, event: Event) -> None:
        self._delays[event.node] = event.seconds, event

    @on("node.killed", "node.paused", "session.lost")
    def absence_begins(self, event: Event) -> None:
        back, before = self._back.get(event.node), self._before.get(event.node)
        is_still_absent = back and event.time_us - back.time_us < NOTICE_DELAY_US
        # The auditor may not have noticed that the bookie had come back in the meantime.
        begun = before if before and is_still_absent else event
        self._absent_since.setdefault(event.node, begun)

    @on("bookie.registered")
    def registered(self, event: Event) -> None:
        self._before[event.node] = self._absent_since.pop(event.node, None)
        self._back[event.node] = event

    @on("bookie.lost")
    def lost(self, event: Event) -> None:
        bookie, auditor = event.peer, event.node
        absent, back = self._absent_since.get(bookie), self._back.get(bookie)
        if auditor not in self._delays or back is None:
            self.report_doubt(f"The trace does not show when {bookie} left")
            return
        if auditor in self.facts.skewed:
            self.report_doubt(f"The clock of {auditor} was inaccurate")
            return
        if absent is None and event.time_us - back.time_us < NOTICE_DELAY_US:
            self.report_doubt(
                f"{bookie} had just registered, so {auditor} may not have known about it yet"
            )
            return
        delay_s, read = self._delays[auditor]
        since = absent or back
        if read.seq > since.seq or self._is_another_absent(bookie, since):
            return
        absent_us = event.time_us - since.time_us
        if absent_us + _CLOCK_ERROR_US >= delay_s * 1e6:
            self.report_kept()
        else:
            self.report_broken(
                event,
                f"{auditor} declared {bookie} lost after at most {absent_us / 1e6:.3g} s,"
                f" although bookies have {delay_s:g} s to come back",
                since,
                read,
            )

    def _is_another_absent(self, bookie: str, since: Event) -> bool:
        back = {name for name, event in self._back.items() if event.seq > since.seq}
        others = back | (self._absent_since.keys() & self._back.keys())
        return bool(others - {bookie})


class SilenceIsNoLoss(Check):
    """After an outage of the metadata store that may have expired sessions, no running bookie is
    declared lost for ten seconds, and the bookie in the auditor's own process is never declared
    lost.

    The check skips auditors that started after the outage, because they cannot know about the
    outage. A bookie contacts the store three times per session timeout, so its session may expire
    during an outage that lasts half of the timeout. The auditor measures the ten seconds with its
    own clock, so the result is unknown if that clock is inaccurate.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._hung: Event | None = None
        self._session_us = 0.0
        self._resumed: Event | None = None
        self._started: dict[str, Event] = {}
        self._has_auditor = False

    @on("auditor.elected")
    def elected(self, event: Event) -> None:
        self._has_auditor = True

    @on("node.started")
    def started(self, event: Event) -> None:
        self._started[event.node] = event

    @on("metadata.hung")
    def hung(self, event: Event) -> None:
        self._hung = event
        self._session_us = event.seconds * 1e6

    @on("metadata.resumed")
    def resumed(self, event: Event) -> None:
        hung, self._hung = self._hung, None
        if hung is None:
            return
        if event.time_us - hung.time_us > self._session_us / 2 + _IN_FLIGHT_US:
            self._resumed = event
            if self._has_auditor:
                self.report_kept()

    @on("bookie.lost")
    def lost(self, event: Event) -> None:
        auditor, bookie, resumed = event.node, event.peer, self._resumed
        if auditor == bookie:
            self.report_broken(
                event, f"{auditor} declared {bookie} lost, the bookie in its own process"
            )
        if resumed is None or event.time_us - resumed.time_us > _GRACE_US:
            return  # The event is outside the grace period.
        if bookie in self.facts.down:
            return
        started = self._started.get(auditor)
        if started is not None and started.seq > resumed.seq:
            self.report_doubt(f"{auditor} was started after the outage of the metadata store")
            return
        if auditor in self.facts.skewed:
            self.report_doubt(f"The clock of {auditor} was inaccurate")
            return
        since_s = (event.time_us - resumed.time_us) / 1e6
        self.report_broken(
            event,
            f"{auditor} declared {bookie} lost {since_s:.3g} s after the metadata store resumed,"
            " although bookies have 10 s to register again",
            resumed,
        )


class RunningBookiesStayRegistered(Check):
    """A running bookie that can reach the metadata store registers again within two seconds of
    losing its registration.

    The check covers only the time before the epilogue. It skips a bookie if another fault affects
    the bookie, or its connection to the store, during these two seconds.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._running: set[str] = set()
        """Running bookies that have registered since they started."""
        self._gone: dict[str, Event] = {}
        """For each running bookie that is no longer registered, the event that reported this."""
        self._not_before_us = 0
        """No bookie has to register before this time, because of a disturbance."""
        self._waits_until_us: dict[str, int] = {}
        """For each node, the time until which it may be waiting for a lost response."""
        self._links_cut = 0

    @on("bookie.unregistered")
    def unregistered(self, event: Event) -> None:
        if event.node in self._running:
            self._gone[event.node] = event

    @on("bookie.registered")
    def registered(self, event: Event) -> None:
        self._running.add(event.node)
        if self._gone.pop(event.node, None) is not None:
            self.report_kept()

    @on("node.killed", "node.paused", "clock.skewed")
    def stopped(self, event: Event) -> None:
        self._running.discard(event.node)
        self._gone.pop(event.node, None)

    @on("link.cut", "link.healed", "metadata.hung", "metadata.resumed", "session.lost")
    def hindered(self, event: Event) -> None:
        self._links_cut += {"link.cut": 1, "link.healed": -1}.get(event.kind, 0)
        self._not_before_us = event.time_us + _REGISTER_WITHIN_US

    @on("message.lost", "message.swapped", "message.copied")
    def response_lost(self, event: Event) -> None:
        # A request whose response was lost must time out first.
        for node in (event.node, event.peer):
            self._waits_until_us[node] = event.time_us + _RESPONSE_TIMEOUT_US

    @on("epilogue.started")
    def judge(self, event: Event) -> None:
        for bookie, gone in self._gone.items():
            due_us = max(
                gone.time_us + _REGISTER_WITHIN_US,
                self._not_before_us,
                self._waits_until_us.get(bookie, 0),
            )
            if not self._links_cut and event.time_us > due_us:
                since_s = (event.time_us - gone.time_us) / 1e6
                self.report_broken(
                    event,
                    f"{bookie} is running but has not been registered for {since_s:.3g} s",
                    gone,
                )
        self._gone.clear()
