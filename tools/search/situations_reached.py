"""Situations of the protocol in a run: an event happens while an activity is under way.

    Activity     lasts from an event to another one, or as long as a call of a disk worker
    Situation    an event that meets an activity, such as a fence that comes during a flush
    reached      the situations that a run got into before its epilogue

A situation says nothing about right or wrong, which `labkit.system.check` judges.  It says what a
run has tested.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from operator import attrgetter
from typing import NamedTuple, Protocol

from labkit.system.trace.events import Event
from labkit.worlds.sim.machine.disk_work import DiskCall

_EPILOGUE = "epilogue.started"
_KILLED = "node.killed"


@dataclass(frozen=True, slots=True)
class Activity:
    """From an event of one of the kinds `begins` to one of `ends`, or to the death of the node.

    same: the fields that are equal in both events; they identify one of several activities at a
    time. `call` names the disk workers' calls, instead of events.
    """

    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    same: tuple[str, ...] = ("node", "ledger")
    call: tuple[str, ...] = ()
    outlives_node: bool = False


Meets = Callable[[Event, Event], bool]
"""Whether the second event meets the activity that the first one began."""


def here(begun: Event, now: Event) -> bool:
    """On the same node."""
    return begun.node == now.node


def same_ledger(begun: Event, now: Event) -> bool:
    """On the same node, about the same ledger."""
    return begun.node == now.node and begun.ledger == now.ledger


def other_node(begun: Event, now: Event) -> bool:
    """On another node, about the same ledger."""
    return begun.node != now.node and begun.ledger == now.ledger


def anywhere(begun: Event, now: Event) -> bool:
    """Wherever it is."""
    return True


@dataclass(frozen=True, slots=True)
class Situation:
    """An event of one of these `kinds` that meets the activity; without one, any such event.

    name: its name in reports; `note`: the beginning of the event's note.
    """

    name: str
    kinds: tuple[str, ...]
    during: Activity | None = None
    meets: Meets = anywhere
    note: str = ""


class Run(Protocol):
    """A run, as far as situations need it: a trace of the simulated world."""

    @property
    def events(self) -> tuple[Event, ...]:
        """The events in the order of their times."""

    @property
    def disk_calls(self) -> tuple[DiskCall, ...]:
        """Of all bookies."""


class _Moment(NamedTuple):
    """An event, or the beginning or end of a disk call (`rank`: after events of the same time)."""

    time_us: int
    rank: int
    event: Event
    call: DiskCall | None = None


class Meetings:
    """Looks for situations in one run after the other."""

    def __init__(self, situations: Iterable[Situation]) -> None:
        self._by_kind: defaultdict[str, list[Situation]] = defaultdict(list)
        activities: dict[Activity, None] = {}
        for each in situations:
            for kind in each.kinds:
                self._by_kind[kind].append(each)
            if each.during is not None:
                activities[each.during] = None
        self._begins = _by(activities, lambda each: each.begins)
        self._ends = _by(activities, lambda each: each.ends)
        self._calls = _by(activities, lambda each: each.call)
        self._mortal = [each for each in activities if not each.outlives_node]
        kinds = {*self._by_kind, *self._begins, *self._ends, _KILLED, _EPILOGUE}
        self._kinds = frozenset(kinds)

    def reached(self, run: Run) -> list[str]:
        """The names of the situations that the run got into, in their order."""
        found: dict[str, None] = {}
        under_way: defaultdict[Activity, dict[object, Event]] = defaultdict(dict)
        for moment in self._moments(run):
            if moment.call is not None:
                for activity in self._calls[moment.call.what]:
                    if moment.rank == 1:
                        under_way[activity].pop(moment.call, None)
                    else:
                        under_way[activity][moment.call] = moment.event
                continue
            event = moment.event
            if event.kind == _EPILOGUE:
                break
            for situation in self._by_kind.get(event.kind, ()):
                if situation.name not in found and _is_met(situation, event, under_way):
                    found[situation.name] = None
            self._go_on(event, under_way)
        return list(found)

    def _moments(self, run: Run) -> Iterator[_Moment]:
        events = (_Moment(each.time_us, 0, each) for each in run.events if each.kind in self._kinds)
        calls = [each for each in run.disk_calls if each.what in self._calls]
        begins = (_Moment(each.begin_us, 2, _event_of(each), each) for each in calls)
        ends = (_Moment(each.end_us, 1, _event_of(each), each) for each in calls)
        by_time = attrgetter("time_us", "rank")
        return merge(events, sorted((*begins, *ends), key=by_time), key=by_time)

    def _go_on(self, event: Event, under_way: Mapping[Activity, dict[object, Event]]) -> None:
        """End and begin the activities of the event."""
        for activity in self._ends.get(event.kind, ()):
            under_way[activity].pop(_key(activity, event), None)
        if event.kind == _KILLED:
            for activity in self._mortal:
                begun = under_way[activity]
                for key in [key for key, first in begun.items() if first.node == event.node]:
                    del begun[key]
        for activity in self._begins.get(event.kind, ()):
            under_way[activity].setdefault(_key(activity, event), event)


def _is_met(
    situation: Situation, event: Event, under_way: Mapping[Activity, dict[object, Event]]
) -> bool:
    if not event.note.startswith(situation.note):
        return False
    if situation.during is None:
        return True
    return any(situation.meets(begun, event) for begun in under_way[situation.during].values())


def _key(activity: Activity, event: Event) -> tuple[object, ...]:
    return tuple(getattr(event, name) for name in activity.same)


def _event_of(call: DiskCall) -> Event:
    return Event(-1, call.begin_us, call.node, call.what)


def _by(
    activities: Iterable[Activity], names_of: Callable[[Activity], tuple[str, ...]]
) -> dict[str, list[Activity]]:
    found: dict[str, list[Activity]] = {}
    for activity in activities:
        for name in names_of(activity):
            found.setdefault(name, []).append(activity)
    return found
