"""Determines which situations a run reached.

    Activity     something that lasts from one event to another, or as long as a disk worker's call
    Situation    an event during an activity, such as a fence during a flush

The situations show which cases a run has tested, whereas `labkit.system.check` checks whether the
run was correct. Only situations before the epilogue are counted.
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
    """Something that takes time, such as a recovery.

    An activity lasts from an event whose kind is in `begins` to one whose kind is in `ends`, or
    until the node dies. `same` lists the fields that must be equal in both events, so that
    concurrent activities can be told apart. An activity can also be a call of a disk worker. In
    that case, `call` contains the names of the functions that are called.
    """

    begins: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    same: tuple[str, ...] = ("node", "ledger")
    call: tuple[str, ...] = ()
    outlives_node: bool = False


Meets = Callable[[Event, Event], bool]
"""Returns whether the second event happens during the activity that began with the first event."""


def here(begun: Event, now: Event) -> bool:
    return begun.node == now.node


def same_ledger(begun: Event, now: Event) -> bool:
    return begun.node == now.node and begun.ledger == now.ledger


def other_node(begun: Event, now: Event) -> bool:
    return begun.node != now.node and begun.ledger == now.ledger


def anywhere(begun: Event, now: Event) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Situation:
    """An event of this `kind` that happens during an activity.

    If `during` is None, the event can happen at any time. `name` is used in reports. If `error` is
    set, the event must have this error.
    """

    name: str
    kind: str
    during: Activity | None = None
    meets: Meets = anywhere
    error: str = ""


class ObservedRun(Protocol):
    """The attributes of a simulated trace that are needed to find the situations that the run
    reached.
    """

    @property
    def events(self) -> tuple[Event, ...]: ...

    @property
    def disk_calls(self) -> tuple[DiskCall, ...]: ...


class _Moment(NamedTuple):
    """An event, or the start or end of a disk call. `rank` orders simultaneous moments."""

    time_us: int
    rank: int
    event: Event
    call: DiskCall | None = None


class SituationFinder:
    def __init__(self, situations: Iterable[Situation]) -> None:
        self._by_kind: defaultdict[str, list[Situation]] = defaultdict(list)
        activities: dict[Activity, None] = {}
        for each in situations:
            self._by_kind[each.kind].append(each)
            if each.during is not None:
                activities[each.during] = None
        self._begins = _by(activities, lambda each: each.begins)
        self._ends = _by(activities, lambda each: each.ends)
        self._calls = _by(activities, lambda each: each.call)
        self._mortal = [each for each in activities if not each.outlives_node]
        self._kinds = {*self._by_kind, *self._begins, *self._ends, _KILLED, _EPILOGUE}

    def reached(self, run: ObservedRun) -> list[str]:
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
            self._update_activities(event, under_way)
        return list(found)

    def _moments(self, run: ObservedRun) -> Iterator[_Moment]:
        events = (_Moment(each.time_us, 0, each) for each in run.events if each.kind in self._kinds)
        calls = [each for each in run.disk_calls if each.what in self._calls]
        begins = (_Moment(each.begin_us, 2, _event_of(each), each) for each in calls)
        ends = (_Moment(each.end_us, 1, _event_of(each), each) for each in calls)
        by_time = attrgetter("time_us", "rank")
        return merge(events, sorted((*begins, *ends), key=by_time), key=by_time)

    def _update_activities(
        self, event: Event, under_way: Mapping[Activity, dict[object, Event]]
    ) -> None:
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
    if situation.error and event.error != situation.error:
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
