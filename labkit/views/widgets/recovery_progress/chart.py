"""The chart of a recovery: a lane for the auditor's office, for each bookie and for each ledger.

Its columns are steps, not moments: a step within a millisecond takes nearly as much room as a wait
of ten seconds before it.  The picture says so: each wait is a column with its length in words.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

from labkit.views.widgets.recovery_progress.fold import Progress
from labkit.views.widgets.recovery_progress.state import LedgerRepair, RepairStep

MOST_LEDGERS = 8
_WAIT_SHARE = 0.01
"""A gap of at least this share of the run is a wait."""
_WAIT_WIDTH, _WAITS_WIDTH = 0.08, 0.5
"""The share of the chart's width for a wait, and the largest share for all waits together."""

BOOKIES = {
    "up": "up",
    "paused": "paused",
    "down": "down, still registered",
    "gone": "not registered",
    "lost": "taken for lost",
}

_LABELS = {"paused": "paused", "down": "down", "gone": "gone", "lost": "taken for lost"}


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """A part of a lane with the same look: from step `first` (from 0) up to, not including,
    `end`.
    """

    first: int
    end: int
    look: str
    label: str
    words: str


@dataclass(frozen=True, slots=True)
class Lane:
    """`kind`: auditor, bookie or ledger.  A ledger's lane has, for each step, the share (0 to 1) of
    its copies that is there, and the share that was copied to bookies not yet named by the
    metadata.
    """

    kind: str
    name: str
    spans: tuple[LaneSpan, ...]
    present: tuple[float, ...] = ()
    copied: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """`edges`: the beginning of each step and the end of the last one, 0 to 1.  `waits`: the steps
    followed by a wait, and its length in microseconds.
    """

    edges: tuple[float, ...]
    lanes: tuple[Lane, ...]
    waits: tuple[tuple[int, int], ...]
    hidden_ledger_count: int


Look = tuple[str, str, str]
"""Look, label, words."""


def chart_of(steps: Sequence[RepairStep], bookies: Sequence[str]) -> Chart:
    """The chart of all steps.  If there are many ledgers, it has those that were marked first."""
    progress = Progress(bookies)
    offices: list[Look] = []
    nodes: list[dict[str, str]] = []
    ledgers: list[dict[int, LedgerRepair]] = []
    for step in steps:
        progress.apply(step)
        before, nodes_before = (ledgers[-1], nodes[-1]) if ledgers else ({}, None)
        offices.append(_office(progress))
        nodes.append(dict(progress.bookies))
        touched = progress.ledgers if nodes[-1] != nodes_before else _touched(step, progress)
        fresh = {n: progress.repair(n) for n in touched if progress.ledgers[n].ensembles}
        ledgers.append(before | fresh)
    shown = _shown(ledgers)
    lanes = [Lane("auditor", "auditor", _spans(offices))]
    lanes += [
        Lane("bookie", name, _spans([_node(name, each.get(name)) for each in nodes]))
        for name in progress.names()
    ]
    lanes += [_ledger_lane(n, [each.get(n) for each in ledgers]) for n in shown]
    hidden_count = len(ledgers[-1]) - len(shown) if ledgers else 0
    waits = tuple(_waits(steps))
    return Chart(_edges(len(steps), waits), tuple(lanes), waits, hidden_count)


def _touched(step: RepairStep, progress: Progress) -> Iterator[int]:
    """The ledgers that may look different after the step; any of them may have lost its worker."""
    named = {step.event.ledger, *(each.ledger for each in step.stored)}
    is_of_node = step.event.ledger < 0
    return (n for n in progress.ledgers if n in named or is_of_node)


def _office(progress: Progress) -> Look:
    name = progress.auditor
    if not name:
        return "none", "", "there is no auditor"
    if progress.is_auditor_dead:
        words = f"{name} is dead, and holds the office until its session ends"
        return "dead", f"{name} ✕", words
    return "auditor", name, f"{name} is the auditor"


def _node(name: str, state: str | None) -> Look:
    if state is None:
        return "", "", ""
    return state, _LABELS.get(state, ""), f"{name} is {BOOKIES[state]}"


def _ledger_lane(ledger_id: int, repairs: Sequence[LedgerRepair | None]) -> Lane:
    shares = [_shares(each) for each in repairs]
    return Lane(
        "ledger",
        f"ledger {ledger_id}",
        _spans([_stage(ledger_id, each) for each in repairs]),
        tuple(present for present, _ in shares),
        tuple(copied for _, copied in shares),
    )


def _stage(ledger_id: int, repair: LedgerRepair | None) -> Look:
    if repair is None or repair.stage == "whole":
        return "", "", ""
    labels = {"marked": "marked", "locked": repair.holder, "waiting": f"{repair.holder} waits"}
    return repair.stage, labels[repair.stage], f"ledger {ledger_id}: {stage_words(repair)}"


def stage_words(repair: LedgerRepair) -> str:
    """The progress of a ledger's repair, in words."""
    return {
        "whole": "not marked",
        "marked": f"marked, {repair.missed} missed" if repair.missed else "marked",
        "locked": f"{repair.holder} repairs it",
        "waiting": f"put off by {repair.holder}: {repair.why}",
    }[repair.stage]


def _shares(repair: LedgerRepair | None) -> tuple[float, float]:
    due = sum(each.due for each in repair.fragments) if repair else 0
    if not repair or not due:
        return 0.0, 0.0
    present = sum(each.present for each in repair.fragments)
    copied = sum(each.copied for each in repair.fragments)
    return round(present / due, 4), round(copied / due, 4)


def _spans(looks: Sequence[Look]) -> tuple[LaneSpan, ...]:
    spans, at = [], 0
    for look, group in groupby(looks):
        count = len(list(group))
        if look[0]:
            spans.append(LaneSpan(at, at + count, *look))
        at += count
    return tuple(spans)


def _shown(ledgers: Sequence[dict[int, LedgerRepair]]) -> list[int]:
    if not ledgers:
        return []
    marked = [n for n in ledgers[-1] if any(n in s and s[n].stage != "whole" for s in ledgers)]
    others = [n for n in ledgers[-1] if n not in marked]
    return sorted([*sorted(marked), *sorted(others)][:MOST_LEDGERS])


def _edges(step_count: int, waits: Sequence[tuple[int, int]]) -> tuple[float, ...]:
    waiting = {step for step, _ in waits}
    others_count = step_count - len(waiting)
    wait = min(_WAIT_WIDTH, _WAITS_WIDTH / max(len(waiting), 1))
    other = (1 - wait * len(waiting)) / max(others_count, 1)
    widths = (max(wait, other) if n in waiting else other for n in range(step_count))
    ends = list(accumulate(widths, initial=0.0))
    return tuple(round(end / (ends[-1] or 1), 5) for end in ends)


def _waits(steps: Sequence[RepairStep]) -> Iterator[tuple[int, int]]:
    times = [step.event.time_us for step in steps]
    least_us = (times[-1] - times[0]) * _WAIT_SHARE if times else 0
    for at, (earlier, later) in enumerate(pairwise(times)):
        if later - earlier > least_us:
            yield at, later - earlier
