"""Links, one for each direction between two nodes: they delay, and by a fault do worse.

Messages of a link are numbered from 0, whatever connection they belong to, and each asks for its
own fate by that number: `delay w>b0 2`, `lose w>b0 2`, `copy w>b0 2`, `swap w>b0 2`.
"""

from collections.abc import Callable, Sequence
from contextvars import Context
from typing import Any, Protocol

from labkit.worlds.sim.machine.decisions import Decisions, log_spread
from labkit.worlds.sim.machine.loop import SimLoop

LATENCY_S = 0.00025
"""How long a message takes when nothing is wrong."""
_LATE_MS = log_spread(0.1, 50)
_EXTRA_MS = log_spread(0.5, 50)

Report = Callable[[str, str, str, str], None]
"""Takes a kind of event, source, target and the message's name."""
Choose = Callable[[Sequence["Parcel"]], int]


class Receiver(Protocol):
    """One direction of a connection, on its far side: where order must be kept."""

    due: float
    newest: "Parcel | None"

    def take(self, bodies: list[Any]) -> None:
        """Frames arrived."""


class Parcel:
    """What travels: frames for a receiver, or an action that opens or closes a connection."""

    __slots__ = ("action", "bodies", "context", "due", "link", "number", "receiver")

    def __init__(
        self,
        link: "NetworkLink",
        number: int,
        context: Context,
        receiver: Receiver | None,
        bodies: list[Any],
        action: Callable[[], None] | None = None,
    ) -> None:
        self.link = link
        self.number = number
        self.context = context
        self.receiver = receiver
        self.bodies = bodies
        self.action = action
        self.due = 0.0

    def __str__(self) -> str:
        return f"{self.link.name} {self.number}"

    def arrive(self) -> None:
        if self.action is not None:
            self.action()
        elif self.receiver is not None:
            if self.receiver.newest is self:
                self.receiver.newest = None
            self.receiver.take(self.bodies)


class NetworkLink:
    """One direction between two nodes.

    `is_cut`: what is sent waits here until `heal`.  `extra_s` slows every message down; the shares
    (0 to 1) say how many are late, lost, copied (the frames come twice) and swapped (later ones
    overtake them).
    """

    __slots__ = (
        "_copy",
        "_delay",
        "_is_chosen",
        "_lose",
        "_report",
        "_swap",
        "_transit",
        "copy_share",
        "count",
        "extra_s",
        "held",
        "is_cut",
        "late_share",
        "lose_share",
        "name",
        "source",
        "swap_share",
        "target",
    )

    def __init__(
        self, source: str, target: str, decisions: Decisions, transit: "Transit", report: Report
    ) -> None:
        self.source, self.target = source, target
        self.name = f"{source}>{target}"
        self.count = 0
        self.is_cut = False
        self.held: list[Parcel] = []
        self.extra_s = 0.0
        self.late_share = self.lose_share = self.copy_share = self.swap_share = 0.0
        self._delay = decisions.of(f"delay {self.name}")
        self._lose = decisions.of(f"lose {self.name}")
        self._copy = decisions.of(f"copy {self.name}")
        self._swap = decisions.of(f"swap {self.name}")
        fates = self._lose, self._copy, self._swap
        self._is_chosen = any(fate.is_chosen for fate in fates)
        self._transit = transit
        self._report = report

    def send(self, receiver: Receiver, bodies: list[Any], context: Context) -> bool:
        """Carry frames of a connection, in order with those before; False if they are lost."""
        number = self.count
        self.count += 1
        may_fail = self._is_chosen or self.lose_share or self.copy_share or self.swap_share
        if may_fail and self._lose.take(number, self.lose_share):
            self._tell("message.lost", number)
            return False
        due = self._due(number)
        if may_fail and self._leaves_its_place(number, due, receiver, bodies, context):
            return True
        newest = receiver.newest
        due = receiver.due = max(due, receiver.due)
        if newest is not None and newest.due == due and self._transit.choose is None:
            newest.bodies += bodies
            return True
        receiver.newest = parcel = Parcel(self, number, context, receiver, bodies)
        self._carry(parcel, due)
        return True

    def _leaves_its_place(
        self, number: int, due: float, receiver: Receiver, bodies: list[Any], context: Context
    ) -> bool:
        """Copy the frames, or carry them so that later ones overtake them, if that is their fate;
        whether they were carried.
        """
        if extra_ms := self._copy.take(number, self.copy_share, _EXTRA_MS):
            self._tell("message.copied", number)
            # With a list apart: later frames may still join the original parcel.
            copy = Parcel(self, number, context, receiver, list(bodies))
            self._carry(copy, due + extra_ms / 1000)
        if extra_ms := self._swap.take(number, self.swap_share, _EXTRA_MS):
            self._tell("message.swapped", number)
            parcel = Parcel(self, number, context, receiver, bodies)
            self._carry(parcel, due + extra_ms / 1000)
            return True
        return False

    def act(
        self, action: Callable[[], None], context: Context, after: Receiver | None = None
    ) -> None:
        """Carry a step of opening or closing a connection; `after` what its receiver will get."""
        number = self.count
        self.count += 1
        due = self._due(number)
        if after is not None:
            after.newest = None
            due = after.due = max(due, after.due)
        self._carry(Parcel(self, number, context, after, [], action), due)

    def cut(self) -> None:
        """Hold everything that is sent from now on."""
        if not self.is_cut:
            self.is_cut = True
            self._report("link.cut", self.source, self.target, "")

    def heal(self) -> None:
        """Deliver what was held, in order."""
        if self.is_cut:
            self.is_cut = False
            self._report("link.healed", self.source, self.target, "")
            held, self.held = self.held, []
            soonest = self._transit.loop.now + LATENCY_S
            for parcel in held:
                due = max(parcel.due, soonest)
                if parcel.receiver is not None:
                    # What is sent after the healing must not overtake what was held.
                    parcel.receiver.due = max(parcel.receiver.due, due)
                self._carry(parcel, due)

    def behave(self) -> None:
        self.extra_s = self.late_share = 0.0
        self.lose_share = self.copy_share = self.swap_share = 0.0
        self.heal()

    def _due(self, number: int) -> float:
        due = self._transit.loop.now + LATENCY_S + self.extra_s
        if self.late_share or self._delay.is_chosen:
            due += self._delay.take(number, self.late_share, _LATE_MS) / 1000
        return due

    def _carry(self, parcel: Parcel, due: float) -> None:
        parcel.due = due
        if self.is_cut:
            self.held.append(parcel)
        else:
            self._transit.carry(parcel)

    def _tell(self, kind: str, number: int) -> None:
        self._report(kind, self.source, self.target, f"{self.name} {number}")


class Transit:
    """What is under way on all links.

    Parcels arrive when they are due.  With `choose` time plays no part: whenever nothing is left to
    do, it is asked for the place of the one that arrives next, among those that could.
    """

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.choose: Choose | None = None
        self.parcels: list[tuple[str, int, int, int]] = []
        """Every parcel: link, number, microseconds when it was sent and when it was due."""
        self.under_way: list[Parcel] = []
        """The parcels that wait to be chosen."""
        self.at_once: dict[str, None] = {}
        """Links whose parcels arrive at once, where others are chosen."""
        loop.on_idle = self.deliver_chosen

    def carry(self, parcel: Parcel) -> None:
        """Let the parcel arrive, now or later."""
        loop = self.loop
        due_us = int(parcel.due * 1e6 + 0.5)
        self.parcels.append((parcel.link.name, parcel.number, loop.now_us(), due_us))
        if self.choose is None:
            loop.call_true(parcel.due, parcel.arrive, context=parcel.context)
        elif parcel.link.name in self.at_once:
            loop.call_soon(parcel.arrive, context=parcel.context)
        else:
            self.under_way.append(parcel)

    def deliver_chosen(self) -> bool:
        """Let the chosen parcel arrive; False when there is none."""
        if self.choose is None or not self.under_way:
            return False
        first: dict[int, Parcel] = {}
        for parcel in self.under_way:
            # Of a connection only the oldest can be next: TCP keeps the order.
            first.setdefault(id(parcel.receiver or parcel), parcel)
        possible = list(first.values())
        parcel = possible[self.choose(possible)]
        self.under_way.remove(parcel)
        self.loop.now += LATENCY_S
        self.loop.call_soon(parcel.arrive, context=parcel.context)
        return True
