"""Network links, which delay messages and can be faulty. Two nodes are connected by two links, one
in each direction.

The messages of a link are numbered from 0, across all connections. Decisions refer to a message by
this number: `delay w>b0 2`, `lose w>b0 2`, `copy w>b0 2`, `swap w>b0 2`.
"""

from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Protocol, Unpack

from labkit.system.trace.events import Fields
from labkit.worlds.sim.machine.decisions import Decisions, log_spread
from labkit.worlds.sim.machine.loop import SimLoop

LATENCY_S = 0.00025
"""How long a message normally takes."""
_LATE_MS = log_spread(0.1, 50)
_EXTRA_MS = log_spread(0.5, 50)
Choose = Callable[[Sequence["Parcel"]], int]


class Report(Protocol):
    """Receives an event of the simulated world: the kind, the node, and the other columns."""

    def __call__(self, kind: str, node: str, /, **fields: Unpack[Fields]) -> None: ...


class Receiver(Protocol):
    """The receiving end of one direction of a connection. It keeps frames in order.

    is_open: whether the receiver still accepts frames; otherwise, it drops them.
    """

    due: float
    newest: "Parcel | None"
    is_open: bool

    def receive(self, bodies: list[Any]) -> None: ...


class Purpose(Enum):
    """The purpose of a message: carrying frames, opening or closing a connection, or beginning a
    step (a client's message to itself).
    """

    FRAMES = auto()
    CONNECT = auto()
    ACCEPT = auto()
    REFUSE = auto()
    CLOSE = auto()
    BEGIN_STEP = auto()


@dataclass(slots=True, eq=False)
class Parcel:
    """A message in transit. It contains frames for a receiver, or an action for another purpose."""

    link: "NetworkLink"
    number: int
    context: Context
    receiver: Receiver | None
    bodies: list[Any]
    purpose: Purpose = Purpose.FRAMES
    action: Callable[[], None] | None = None
    is_swapped: bool = False
    """Whether later messages of the connection may overtake this message."""
    due: float = 0.0

    @property
    def queue(self) -> int:
        """A key that messages share if they must arrive in the order in which they were sent,
        because TCP preserves the order of a connection.
        """
        return id(self if self.receiver is None or self.is_swapped else self.receiver)

    def __str__(self) -> str:
        return f"{self.link.name} {self.number}"

    def arrive(self) -> None:
        if self.action is not None:
            self.action()
        elif self.receiver is not None:
            if self.receiver.newest is self:
                self.receiver.newest = None
            self.receiver.receive(self.bodies)


class NetworkLink:
    """A network link in one direction between two nodes.

    While `is_cut` is set, messages are held back until `heal` is called. `extra_s` is added to the
    delay of every message. The four shares (0 to 1) determine how many messages are late, lost,
    copied (their frames arrive twice) and swapped (later messages overtake them).
    """

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
        """Send frames, which arrive after all earlier frames of the connection. Return False if the
        frames are lost.
        """
        number = self.count
        self.count += 1
        may_fail = self._is_chosen or self.lose_share or self.copy_share or self.swap_share
        if may_fail and self._lose.value_of(number, self.lose_share):
            self._report_fault("message.lost", number)
            return False
        due = self._due(number)
        if may_fail and self._copy_or_swap(number, due, receiver, bodies, context):
            return True
        newest = receiver.newest
        due = receiver.due = max(due, receiver.due)
        if newest is not None and newest.due == due and self._transit.choose is None:
            newest.bodies += bodies
            return True
        receiver.newest = parcel = Parcel(self, number, context, receiver, bodies)
        self._carry(parcel, due)
        return True

    def _copy_or_swap(
        self, number: int, due: float, receiver: Receiver, bodies: list[Any], context: Context
    ) -> bool:
        """Copy or delay the frames if a decision requires it. Return whether they were sent."""
        if extra_ms := self._copy.value_of(number, self.copy_share, _EXTRA_MS):
            self._report_fault("message.copied", number)
            # Use a separate list, because later frames may still be appended to the original
            # parcel.
            copy = Parcel(self, number, context, receiver, list(bodies))
            self._carry(copy, due + extra_ms / 1000)
        if extra_ms := self._swap.value_of(number, self.swap_share, _EXTRA_MS):
            self._report_fault("message.swapped", number)
            parcel = Parcel(self, number, context, receiver, bodies, is_swapped=True)
            self._carry(parcel, due + extra_ms / 1000)
            return True
        return False

    def act(
        self,
        purpose: Purpose,
        action: Callable[[], None],
        context: Context,
        after: Receiver | None = None,
    ) -> None:
        """Send a message that runs `action` on arrival, after all earlier frames to `after`."""
        number = self.count
        self.count += 1
        due = self._due(number)
        if after is not None:
            after.newest = None
            due = after.due = max(due, after.due)
        self._carry(Parcel(self, number, context, after, [], purpose, action), due)

    def cut(self) -> None:
        if not self.is_cut:
            self.is_cut = True
            self._report("link.cut", self.source, peer=self.target)

    def heal(self) -> None:
        if self.is_cut:
            self.is_cut = False
            self._report("link.healed", self.source, peer=self.target)
            held, self.held = self.held, []
            soonest = self._transit.loop.now + LATENCY_S
            for parcel in held:
                due = max(parcel.due, soonest)
                if parcel.receiver is not None:
                    # Messages sent from now on must not overtake those that were held back.
                    parcel.receiver.due = max(parcel.receiver.due, due)
                self._carry(parcel, due)

    def repair(self) -> None:
        self.extra_s = self.late_share = 0.0
        self.lose_share = self.copy_share = self.swap_share = 0.0
        self.heal()

    def _due(self, number: int) -> float:
        due = self._transit.loop.now + LATENCY_S + self.extra_s
        # In a chosen order, it does not matter when a message is due.
        if self._transit.choose is None and (self.late_share or self._delay.is_chosen):
            due += self._delay.value_of(number, self.late_share, _LATE_MS) / 1000
        return due

    def _carry(self, parcel: Parcel, due: float) -> None:
        parcel.due = due
        if self.is_cut:
            self.held.append(parcel)
        else:
            self._transit.carry(parcel)

    def _report_fault(self, kind: str, number: int) -> None:
        self._report(kind, self.source, peer=self.target, message=f"{self.name} {number}")


class Transit:
    """The messages in flight on all links.

    Normally, parcels arrive when they are due. If `choose` is set, this function decides instead:
    whenever the event loop is idle, `deliver_chosen` calls the function with the candidates, and
    the function returns the index of the parcel to deliver.
    """

    def __init__(self, loop: SimLoop) -> None:
        self.loop = loop
        self.choose: Choose | None = None
        self.parcels: list[tuple[str, int, int, int]] = []
        """The parcels that have been sent so far: for each parcel, its link, its number, and the
        times at which it was sent and due (in microseconds). Lost messages are not included, and
        frames that were appended to a parcel are part of that parcel.
        """
        self.under_way: list[Parcel] = []
        """The parcels that are waiting to be chosen."""
        self.at_once: dict[str, None] = {}
        """Links whose parcels arrive immediately even in a chosen order. For the rest of the run,
        these are the links between the metadata server and each restarted bookie.
        """

    def carry(self, parcel: Parcel) -> None:
        loop = self.loop
        due_us = int(parcel.due * 1e6 + 0.5)
        self.parcels.append((parcel.link.name, parcel.number, loop.now_us(), due_us))
        if self.choose is None:
            loop.call_at_world_time(parcel.due, parcel.arrive, context=parcel.context)
        elif parcel.link.name in self.at_once:
            loop.call_soon(parcel.arrive, context=parcel.context)
        else:
            self.under_way.append(parcel)

    def deliver_chosen(self) -> bool:
        """Deliver the chosen parcel. Return False if there is nothing to choose from."""
        if self.choose is None or not self.under_way:
            return False
        first: dict[int, Parcel] = {}
        for parcel in self.under_way:
            first.setdefault(parcel.queue, parcel)
        possible = list(first.values())
        self._deliver(possible[self.choose(possible)])
        return True

    def deliver_first(self, wanted: Callable[[Parcel], bool]) -> bool:
        """Deliver the oldest parcel for which `wanted` returns True. Return False if there is
        none.
        """
        parcel = next(filter(wanted, self.under_way), None)
        if parcel is not None:
            self._deliver(parcel)
        return parcel is not None

    def _deliver(self, parcel: Parcel) -> None:
        self.under_way.remove(parcel)
        self.loop.now += LATENCY_S
        self.loop.call_soon(parcel.arrive, context=parcel.context)
