"""The chart of a recovery, with a lane for the auditor, for each bookie and for each ledger.

A column is a step, not a period of time, so a step that takes a millisecond is nearly as wide as
the ten-second wait before it. To make this clear, each wait is a separate column, labelled with its
length.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

from labkit.views.widgets.drawing.kin import ledger_kin, node_kin
from labkit.views.widgets.recovery_progress.fold import Progress
from labkit.views.widgets.recovery_progress.state import LedgerRepair, RepairStep

MAX_LEDGERS = 8
_WAIT_SHARE = 0.01
"""A gap between steps that takes at least this share of the run counts as a wait."""
_WAIT_WIDTH, _WAITS_WIDTH = 0.08, 0.5
"""The share of the chart's width for one wait, and the maximum share for all waits together."""

BOOKIES = {
    "up": "up",
    "paused": "paused",
    "down": "down, but still registered",
    "gone": "not registered",
    "lost": "considered lost",
}

_LABELS = {"paused": "paused", "down": "down", "gone": "gone", "lost": "considered lost"}


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """A section of a lane whose appearance does not change. The section extends from step `first`
    (counting from 0) up to but not including step `end`.
    """

    first: int
    end: int
    look: str
    label: str
    words: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of the chart. `kind`: auditor, bookie or ledger. `kin`: see `kin`."""

    kind: str
    name: str
    kin: str
    spans: tuple[LaneSpan, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart of a run.

    edges: the start of each step and the end of the last step, from 0 to 1.
    ledgers: the ledgers that have a lane.
    waits: each step that is followed by a wait, with the length of the wait in microseconds.
    """

    edges: tuple[float, ...]
    lanes: tuple[Lane, ...]
    ledgers: tuple[int, ...]
    waits: tuple[tuple[int, int], ...]
    hidden_ledger_count: int


Look = tuple[str, str, str]
"""The appearance, label and description of a lane at a step."""


def chart_of(steps: Sequence[RepairStep], bookies: Sequence[str]) -> Chart:
    """Return the chart of all steps. If there are too many ledgers, the under-replicated ones are
    shown first.
    """
    progress = Progress(bookies)
    auditors: list[Look] = []
    nodes: list[dict[str, str]] = []
    ledgers: list[dict[int, LedgerRepair]] = []
    for step in steps:
        progress.apply(step)
        auditors.append(_auditor_look(progress))
        nodes.append(dict(progress.bookies))
        known = progress.stored_ledgers()
        ledgers.append({n: progress.repair(n, is_detailed=False) for n in known})
    shown = _shown(ledgers)
    lanes = [Lane("auditor", "auditor", "", _spans(auditors))]
    lanes += [
        Lane(
            "bookie", name, node_kin(name), _spans([_node(name, each.get(name)) for each in nodes])
        )
        for name in progress.names()
    ]
    lanes += [_ledger_lane(n, [each.get(n) for each in ledgers]) for n in shown]
    hidden_count = len(ledgers[-1]) - len(shown) if ledgers else 0
    waits = tuple(_waits(steps))
    return Chart(_edges(len(steps), waits), tuple(lanes), tuple(shown), waits, hidden_count)


def _auditor_look(progress: Progress) -> Look:
    name = progress.auditor
    if not name:
        return "none", "", "no auditor"
    if progress.is_auditor_dead:
        words = f"{name} is dead, but remains the auditor until its session expires"
        return "dead", f"{name} ✕", words
    return "auditor", name, f"{name} is the auditor"


def _node(name: str, state: str | None) -> Look:
    if state is None:
        return "", "", ""
    return state, _LABELS.get(state, ""), f"{name} is {BOOKIES[state]}"


def _ledger_lane(ledger_id: int, repairs: Sequence[LedgerRepair | None]) -> Lane:
    looks, was_marked = list[Look](), False
    for repair in repairs:
        was_marked |= repair is not None and repair.stage != "whole"
        looks.append(_stage(ledger_id, repair, was_marked))
    return Lane("ledger", f"ledger {ledger_id}", ledger_kin(ledger_id), _spans(looks))


def _stage(ledger_id: int, repair: LedgerRepair | None, was_marked: bool) -> Look:
    if repair is None:
        return "", "", ""
    labels = {
        "whole": "done" if was_marked else "",
        "marked": "marked",
        "locked": f"{repair.holder} copying",
        "waiting": f"{repair.holder} waiting",
    }
    # A lane does not say whether copies are missing: that can change without a step of the repair.
    unmarked = "repaired, no longer marked" if was_marked else "not marked"
    words = unmarked if repair.stage == "whole" else stage_words(repair)
    return repair.stage, labels[repair.stage], f"ledger {ledger_id}: {words}"


def stage_words(repair: LedgerRepair) -> str:
    """Describe the stage. A ledger that is not marked may lack copies that nobody knows about."""
    is_short = any(each.min_copies < repair.write_quorum for each in repair.fragments)
    return {
        "whole": "not marked" if is_short else "fully replicated",
        "marked": f"marked, missing {', '.join(repair.missed)}" if repair.missed else "marked",
        "locked": f"{repair.holder} is copying",
        "waiting": f"postponed by {repair.holder}: {repair.why}",
    }[repair.stage]


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
    return sorted([*sorted(marked), *sorted(others)][:MAX_LEDGERS])


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
    min_wait_us = (times[-1] - times[0]) * _WAIT_SHARE if times else 0
    for at, (earlier, later) in enumerate(pairwise(times)):
        if later - earlier > min_wait_us:
            yield at, later - earlier
