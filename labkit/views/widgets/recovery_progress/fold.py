"""Folds a run's events into the steps of the recovery progress."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.recovery_progress.state import (
    DurableCopy,
    EnsemblePlace,
    FragmentCopies,
    LedgerRepair,
    RecoveryState,
    RepairStep,
)

_END = "epilogue.started"
_MOST_COPIED = 300
"""Up to this number of copies each one is a step; of more, only some are."""


def first_bookies(events: Sequence[Event]) -> list[str]:
    """The bookies that register before the first ledger exists: the picture begins with them."""
    names: dict[str, None] = {}
    for event in events:
        if event.kind == "ledger.created":
            break
        if event.kind == "bookie.registered":
            names[event.node] = None
    return sorted(names, key=_by_number)


def steps_of(events: Sequence[Event]) -> list[RepairStep]:
    """The run's steps, up to a simulated run's epilogue."""
    end = next((at for at, event in enumerate(events) if event.kind == _END), len(events))
    copied_count = sum(event.kind == "entry.copied" for event in events[:end])
    stride = -(-copied_count // _MOST_COPIED) or 1
    progress, repaired_count = Progress(first_bookies(events)), 0
    steps: list[RepairStep] = []
    stored: list[DurableCopy] = []
    for event in events[:end]:
        if event.kind == "journal.synced" and event.entry >= 0:
            repaired_count += progress.ledgers[event.ledger].stage == "locked"
            if progress.ledgers[event.ledger].stage != "locked" or repaired_count % stride:
                stored.append(DurableCopy(event.node, event.ledger, event.entry))
                continue
        step = RepairStep(event, tuple(stored))
        if progress.apply(step):
            steps.append(step)
            stored = []
    return steps


@dataclass(slots=True)
class _Ledger:
    write_quorum: int = 0
    end: int = -1
    closed: bool = False
    marked: bool = False
    missed: str = ""
    holder: str = ""
    holder_died: bool = False
    why: str = ""
    ensembles: dict[int, tuple[str, ...]] = field(default_factory=dict)
    targets: dict[int, list[str]] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        if self.holder:
            return "waiting" if self.why else "locked"
        return "marked" if self.marked else "whole"

    def let_go(self) -> None:
        self.holder, self.holder_died, self.why = "", False, ""
        self.targets.clear()


class Progress:
    """The fold's accumulator."""

    def __init__(self, bookies: Iterable[str]) -> None:
        self.count = 0
        self.last: Event | None = None
        self.auditor = ""
        self.is_auditor_dead = False
        self.bookies: dict[str, str] = dict.fromkeys(bookies, "up")
        self.ledgers: defaultdict[int, _Ledger] = defaultdict(_Ledger)
        self.held: defaultdict[tuple[str, int], set[int]] = defaultdict(set)

    def apply(self, step: RepairStep) -> bool:
        """Take the next step; returns whether its event changes the picture."""
        take = _TAKE.get(step.event.kind)
        if take is None:
            return False
        for each in step.stored:
            self._store(*each)
        if not take(self, step.event):
            return False
        self.count += 1
        self.last = step.event
        return True

    def state(self) -> RecoveryState:
        """The state after the steps so far."""
        ledger_ids = sorted(each for each in self.ledgers if self.ledgers[each].ensembles)
        return RecoveryState(
            self.count,
            self.last.time_us if self.last else -1,
            describe(self.last) if self.last else "",
            self.auditor,
            self.is_auditor_dead,
            {name: self.bookies[name] for name in self.names()},
            {each: self.repair(each) for each in ledger_ids},
        )

    def names(self) -> list[str]:
        """The bookies in the order of their names, bookie-2 before bookie-10."""
        return sorted(self.bookies, key=_by_number)

    def repair(self, ledger_id: int) -> LedgerRepair:
        """The state of a ledger's repair, with its copies counted."""
        ledger = self.ledgers[ledger_id]
        firsts = sorted(ledger.ensembles)
        lasts = [*(first - 1 for first in firsts[1:]), max(ledger.end, firsts[-1] - 1)]
        fragments = (
            self._copies(ledger_id, first, last) for first, last in zip(firsts, lasts, strict=True)
        )
        return LedgerRepair(
            ledger.write_quorum,
            ledger.closed,
            ledger.stage,
            ledger.missed,
            ledger.holder,
            ledger.why,
            tuple(fragments),
        )

    def _copies(self, ledger_id: int, first: int, last: int) -> FragmentCopies:
        ledger = self.ledgers[ledger_id]
        ensemble, quorum = ledger.ensembles[first], ledger.write_quorum
        size = len(ensemble)
        has = [self.held[bookie, ledger_id] for bookie in ensemble]
        answers = [self.bookies.get(bookie) == "up" for bookie in ensemble]
        held, due, least, present = [0] * size, [0] * size, quorum, 0
        for entry in range(first, last + 1):
            copies = 0
            for place in (at % size for at in range(entry, entry + quorum)):
                due[place] += 1
                held[place] += entry in has[place]
                copies += answers[place] and entry in has[place]
            least = min(least, copies)
            present += copies
        targets = [
            (bookie, sum(first <= entry <= last for entry in self.held[bookie, ledger_id]))
            for bookie in ledger.targets.get(first, [])
            if bookie not in ensemble
        ]
        return FragmentCopies(
            first,
            last,
            tuple(
                EnsemblePlace(bookie, self.bookies.get(bookie, "up"), held[at], due[at])
                for at, bookie in enumerate(ensemble)
            ),
            least,
            present,
            sum(count for _, count in targets),
            sum(due),
            tuple(targets),
        )

    # Changes by each kind of event

    def _bookie(self, name: str, state: str) -> bool:
        before = self.bookies.get(name)
        self.bookies[name] = state
        return before != state

    def _registered(self, event: Event) -> bool:
        return self._bookie(event.node, "up")

    def _started(self, event: Event) -> bool:
        return event.node in self.bookies and self._bookie(event.node, "up")

    def _resumed(self, event: Event) -> bool:
        return self.bookies.get(event.node) == "paused" and self._bookie(event.node, "up")

    def _paused(self, event: Event) -> bool:
        return self.bookies.get(event.node) == "up" and self._bookie(event.node, "paused")

    def _killed(self, event: Event) -> bool:
        if event.node not in self.bookies:
            return False
        self.is_auditor_dead |= event.node == self.auditor
        for ledger in self.ledgers.values():
            ledger.holder_died |= ledger.holder == event.node
        if self.bookies[event.node] not in ("gone", "lost"):
            self.bookies[event.node] = "down"
        return True

    def _session_lost(self, event: Event) -> bool:
        """The node's registration, its office and its locks are gone.

        A restarted bookie has new sessions beside those of its earlier process.
        """
        is_dead = self.bookies.get(event.node) in ("down", "gone", "lost")
        changed = self._end_session(event.node, only_of_the_dead=not is_dead)
        if self.bookies.get(event.node) in ("down", "paused"):
            changed |= self._bookie(event.node, "gone")
        return changed

    def _restarted(self, event: Event) -> bool:
        return self._end_session(event.node, only_of_the_dead=False)

    def _end_session(self, node: str, *, only_of_the_dead: bool) -> bool:
        changed = False
        if self.auditor == node and (self.is_auditor_dead or not only_of_the_dead):
            self.auditor, self.is_auditor_dead, changed = "", False, True
        for ledger in self.ledgers.values():
            if ledger.holder == node and (ledger.holder_died or not only_of_the_dead):
                ledger.let_go()
                changed = True
        return changed

    def _elected(self, event: Event) -> bool:
        self.auditor, self.is_auditor_dead = event.node, False
        return True

    def _lost(self, event: Event) -> bool:
        return self._bookie(event.peer, "lost")

    def _created(self, event: Event) -> bool:
        numbers = re.findall(r"\d+", event.note)
        self.ledgers[event.ledger].write_quorum = int(numbers[1]) if len(numbers) > 1 else 0
        return True

    def _ensemble_set(self, event: Event) -> bool:
        ensemble = tuple(name.strip() for name in event.note.split(","))
        for bookie in ensemble:
            self.bookies.setdefault(bookie, "up")
        ledger = self.ledgers[event.ledger]
        ledger.write_quorum = ledger.write_quorum or len(ensemble)
        ledger.ensembles[max(event.entry, 0)] = ensemble
        return True

    def _closed(self, event: Event) -> bool:
        ledger = self.ledgers[event.ledger]
        ledger.closed, ledger.end = True, event.entry
        return True

    def _marked(self, event: Event) -> bool:
        ledger = self.ledgers[event.ledger]
        ledger.marked, ledger.missed = True, event.note
        return True

    def _begun(self, event: Event) -> bool:
        ledger = self.ledgers[event.ledger]
        ledger.let_go()
        ledger.marked, ledger.holder = True, event.node
        return True

    def _synced(self, event: Event) -> bool:
        if event.entry < 0:
            return False
        self._store(event.node, event.ledger, event.entry)
        return True

    def _store(self, bookie: str, ledger_id: int, entry: int) -> None:
        self.held[bookie, ledger_id].add(entry)
        ledger = self.ledgers[ledger_id]
        if not ledger.closed:
            ledger.end = max(ledger.end, entry)
        if ledger.stage == "locked":
            first = max((each for each in ledger.ensembles if each <= entry), default=0)
            targets = ledger.targets.setdefault(first, [])
            if bookie not in targets:
                targets.append(bookie)

    def _deferred(self, event: Event) -> bool:
        ledger = self.ledgers[event.ledger]
        ledger.holder, ledger.why = event.node, event.note
        return True

    def _done(self, event: Event) -> bool:
        ledger = self.ledgers[event.ledger]
        ledger.let_go()
        ledger.marked, ledger.missed = False, ""
        return True

    def _noted(self, _event: Event) -> bool:
        return True


def _by_number(name: str) -> tuple[str, int]:
    digits = re.search(r"\d*$", name)[0]  # type: ignore[index] # matches every string
    return name.removesuffix(digits), int(digits or -1)


_TAKE: dict[str, Callable[[Progress, Event], bool]] = {
    "bookie.registered": Progress._registered,
    "node.started": Progress._started,
    "node.resumed": Progress._resumed,
    "node.paused": Progress._paused,
    "node.killed": Progress._killed,
    "session.lost": Progress._session_lost,
    "autorecovery.restarted": Progress._restarted,
    "auditor.elected": Progress._elected,
    "bookie.lost": Progress._lost,
    "ledger.created": Progress._created,
    "ensemble.set": Progress._ensemble_set,
    "ledger.closed": Progress._closed,
    "ledger.underreplicated": Progress._marked,
    "replication.started": Progress._begun,
    "journal.synced": Progress._synced,
    "replication.deferred": Progress._deferred,
    "replication.done": Progress._done,
    "recovery.started": Progress._noted,
    "recovery.ended": Progress._noted,
}
