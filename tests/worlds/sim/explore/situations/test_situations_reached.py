"""Tests that a situation counts as reached only if its event happens during the activity."""

from dataclasses import dataclass

import pytest

from labkit.system.trace.events import Event
from labkit.worlds.sim.explore.situations.situations_reached import (
    Activity,
    Meets,
    Situation,
    SituationFinder,
    anywhere,
    here,
    other_node,
    same_ledger,
)
from labkit.worlds.sim.machine.disk_work import DiskCall

RECOVERY = Activity(("recovery.started",), ("recovery.ended",))
STARTED, ENDED, FENCE = "recovery.started", "recovery.ended", "ledger.fenced"


@dataclass
class Run:
    """A trace with these events (node, kind, ledger), which are one microsecond apart."""

    steps: tuple[tuple[str, str, int], ...]
    disk_calls: tuple[DiskCall, ...] = ()

    @property
    def events(self) -> tuple[Event, ...]:
        return tuple(
            Event(at, at, node, kind, ledger=ledger)
            for at, (node, kind, ledger) in enumerate(self.steps)
        )


def is_met(meets: Meets, during: Activity | None, *steps: tuple[str, str, int]) -> bool:
    return bool(SituationFinder([Situation("it", FENCE, during, meets)]).reached(Run(steps)))


def test_an_event_meets_what_has_begun_and_not_ended() -> None:
    fence = ("x", FENCE, 1)
    assert is_met(same_ledger, RECOVERY, ("x", STARTED, 1), fence)
    assert not is_met(same_ledger, RECOVERY, fence, ("x", STARTED, 1))
    assert not is_met(same_ledger, RECOVERY, ("x", STARTED, 1), ("x", ENDED, 1), fence)


@pytest.mark.parametrize(
    ("meets", "fence", "expected"),
    [
        (same_ledger, ("x", FENCE, 1), True),
        (same_ledger, ("x", FENCE, 2), False),
        (same_ledger, ("y", FENCE, 1), False),
        (here, ("x", FENCE, 2), True),
        (here, ("y", FENCE, 1), False),
        (other_node, ("y", FENCE, 1), True),
        (other_node, ("x", FENCE, 1), False),
        (other_node, ("y", FENCE, 2), False),
        (anywhere, ("y", FENCE, 2), True),
    ],
)
def test_where_it_must_happen_is_part_of_the_situation(
    meets: Meets, fence: tuple[str, str, int], expected: bool
) -> None:
    assert is_met(meets, RECOVERY, ("x", STARTED, 1), fence) is expected


def test_what_ends_elsewhere_goes_on_here() -> None:
    assert is_met(here, RECOVERY, ("x", STARTED, 1), ("y", ENDED, 1), ("x", FENCE, 1))


def test_a_node_that_dies_does_nothing_more() -> None:
    steps = ("x", STARTED, 1), ("x", "node.killed", -1), ("y", FENCE, 1)
    assert not is_met(other_node, RECOVERY, *steps)
    outlives = Activity(("recovery.started",), outlives_node=True)
    assert is_met(other_node, outlives, *steps)


def test_the_death_itself_meets_what_it_ends() -> None:
    death = Situation("death", "node.killed", RECOVERY, here)
    run = Run((("x", STARTED, 1), ("x", "node.killed", -1)))
    assert SituationFinder([death]).reached(run) == ["death"]


def test_a_meeting_in_the_epilogue_does_not_count() -> None:
    assert not is_met(anywhere, None, ("", "epilogue.started", -1), ("x", FENCE, 1))
    assert is_met(anywhere, None, ("x", FENCE, 1), ("", "epilogue.started", -1))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (DiskCall("b0", "flush", 1, 3), True),
        (DiskCall("b0", "flush", 2, 3), False),
        (DiskCall("b0", "flush", 0, 1), False),
        (DiskCall("b0", "sync", 1, 3), False),
        (DiskCall("b1", "flush", 1, 3), False),
    ],
)
def test_a_disk_call_is_under_way_from_its_begin_to_its_end(call: DiskCall, expected: bool) -> None:
    """An event at the very moment when the call begins does not happen during the call."""
    steps = (("b0", "node.started", -1), ("b0", "node.resumed", -1), ("b0", FENCE, 1))
    fence = Situation("fence", FENCE, Activity(call=("flush",)), here)
    assert bool(SituationFinder([fence]).reached(Run(steps, (call,)))) is expected


def test_an_error_tells_events_of_a_kind_apart() -> None:
    situation = Situation("it", FENCE, error="BKReadException")
    assert not SituationFinder([situation]).reached(Run((("x", FENCE, 1),)))
