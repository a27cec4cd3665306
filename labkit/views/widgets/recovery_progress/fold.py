"""Folds the events of a run into the steps of the recovery progress."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from labkit.system.trace.bookie_state import Copy
from labkit.system.trace.cluster_state import ClusterFold, Ledger, Segment, by_number
from labkit.system.trace.events import Event
from labkit.views.widgets.recovery_progress.state import (
    EnsembleBookie,
    FragmentCopies,
    LedgerRepair,
    RecoveryState,
    RepairStep,
)

_END = "epilogue.started"
_MAX_COPIED = 300
"""If a run has at most this many re-replicated copies, each copy is a separate step. If it has
more, only a sample of the copies are steps.
"""


def first_bookies(events: Sequence[Event]) -> list[str]:
    """Return the bookies that register before the first ledger is created. The picture shows these
    from the start.
    """
    names: dict[str, None] = {}
    for event in events:
        if event.kind == "ledger.created":
            break
        if event.kind == "bookie.registered":
            names[event.node] = None
    return sorted(names, key=by_number)


def steps_of(events: Sequence[Event]) -> list[RepairStep]:
    """Return the steps of a run, up to the epilogue of a simulated run."""
    end = next((at for at, event in enumerate(events) if event.kind == _END), len(events))
    copied_count = sum(event.kind == "entry.copied" for event in events[:end])
    stride = -(-copied_count // _MAX_COPIED) or 1
    progress, repaired_count = Progress(first_bookies(events)), 0
    steps: list[RepairStep] = []
    stored: list[Event] = []
    for event in events[:end]:
        if event.kind == "journal.synced" and event.entry >= 0:
            repaired_count += progress.repairs[event.ledger].stage == "locked"
            if progress.repairs[event.ledger].stage != "locked" or repaired_count % stride:
                stored.append(event)
                continue
        step = RepairStep(event, tuple(stored))
        if progress.apply(step):
            steps.append(step)
            stored = []
    return steps


@dataclass(slots=True)
class _Repair:
    end: int = -1
    marked: bool = False
    missed: tuple[str, ...] = ()
    holder: str = ""
    holder_died: bool = False
    is_waiting: bool = False
    why: str = ""
    targets: dict[int, list[str]] = field(default_factory=dict)

    @property
    def stage(self) -> str:
        if self.holder:
            return "waiting" if self.is_waiting else "locked"
        return "marked" if self.marked else "whole"

    def release(self) -> None:
        self.holder, self.holder_died, self.is_waiting, self.why = "", False, False, ""
        self.targets.clear()


class Progress:
    """Adds repairs, and the bookies that the auditor considers lost, to the state of the cluster.

    The cluster state receives only the events of steps, so every copy in it is durable.
    """

    def __init__(self, bookies: Iterable[str]) -> None:
        self.count = 0
        self.auditor = ""
        self.is_auditor_dead = False
        self.bookies: dict[str, str] = dict.fromkeys(bookies, "up")
        self.cluster = ClusterFold()
        self.repairs: defaultdict[int, _Repair] = defaultdict(_Repair)

    def apply(self, step: RepairStep) -> bool:
        """Apply the next step; return whether its event changes the picture."""
        take = _TAKE.get(step.event.kind)
        if take is None:
            return False
        for each in step.stored:
            self.cluster.apply(each)
            self._store(each)
        self.cluster.apply(step.event)
        if not take(self, step.event):
            return False
        self.count += 1
        return True

    def state(self) -> RecoveryState:
        return RecoveryState(
            self.count,
            self.auditor,
            self.is_auditor_dead,
            {name: self.bookies[name] for name in self.names()},
            {each: self.repair(each) for each in sorted(self.stored_ledgers())},
        )

    def names(self) -> list[str]:
        return sorted(self.bookies, key=by_number)

    def stored_ledgers(self) -> list[int]:
        """Return the ledgers whose bookies are known."""
        return [each for each, ledger in self.cluster.ledgers.items() if ledger.segments]

    def repair(self, ledger_id: int, *, is_detailed: bool = True) -> LedgerRepair:
        """Return a ledger and its repair. If `is_detailed` is false, the fragments are omitted."""
        ledger, repair = self.cluster.ledgers[ledger_id], self.repairs[ledger_id]
        firsts = [segment.first_entry for segment in ledger.segments]
        lasts = [*(first - 1 for first in firsts[1:]), max(repair.end, firsts[-1] - 1)]
        quorum = ledger.write_quorum
        if quorum <= 0:
            quorum = len(ledger.segments[0].ensemble)
        fragments = (
            self._fragment(ledger_id, segment, last, quorum)
            for segment, last in zip(ledger.segments, lasts, strict=True)
            if is_detailed
        )
        return LedgerRepair(
            quorum,
            ledger.closed,
            repair.stage,
            repair.missed,
            repair.holder,
            repair.why,
            tuple(fragments),
        )

    def _held(self, bookie: str, ledger_id: int) -> Mapping[int, Copy]:
        return self.cluster.bookies[bookie].copies(ledger_id)

    def _fragment(self, ledger_id: int, segment: Segment, last: int, quorum: int) -> FragmentCopies:
        first, ensemble = segment
        size = len(ensemble)
        has = [self._held(bookie, ledger_id) for bookie in ensemble]
        responds = [self.bookies.get(bookie) == "up" for bookie in ensemble]
        durable, expected, min_copies = [0] * size, [0] * size, quorum
        for entry in range(first, last + 1):
            copies = 0
            for index in (at % size for at in range(entry, entry + quorum)):
                expected[index] += 1
                durable[index] += entry in has[index]
                copies += responds[index] and entry in has[index]
            min_copies = min(min_copies, copies)
        targets = [
            (bookie, sum(first <= entry <= last for entry in self._held(bookie, ledger_id)))
            for bookie in self.repairs[ledger_id].targets.get(first, [])
            if bookie not in ensemble
        ]
        return FragmentCopies(
            first,
            last,
            tuple(
                EnsembleBookie(bookie, self.bookies.get(bookie, "up"), durable[at], expected[at])
                for at, bookie in enumerate(ensemble)
            ),
            min_copies,
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
        for repair in self.repairs.values():
            repair.holder_died |= repair.holder == event.node
        if self.bookies[event.node] not in ("gone", "lost"):
            self.bookies[event.node] = "down"
        return True

    def _session_lost(self, event: Event) -> bool:
        """Drop the node's registration, auditor role and locks.

        If the node is running again, drop only those of its previous process.
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
        for repair in self.repairs.values():
            if repair.holder == node and (repair.holder_died or not only_of_the_dead):
                repair.release()
                changed = True
        return changed

    def _elected(self, event: Event) -> bool:
        self.auditor, self.is_auditor_dead = event.node, False
        return True

    def _lost(self, event: Event) -> bool:
        return self._bookie(event.peer, "lost")

    def _ensemble_set(self, event: Event) -> bool:
        for bookie in event.ensemble:
            self.bookies.setdefault(bookie, "up")
        return True

    def _closed(self, event: Event) -> bool:
        self.repairs[event.ledger].end = event.entry
        return True

    def _marked(self, event: Event) -> bool:
        repair = self.repairs[event.ledger]
        repair.marked, repair.missed = True, event.bookies
        return True

    def _begun(self, event: Event) -> bool:
        repair = self.repairs[event.ledger]
        repair.release()
        repair.marked, repair.holder = True, event.node
        return True

    def _synced(self, event: Event) -> bool:
        if event.entry < 0:
            return False
        self._store(event)
        return True

    def _store(self, event: Event) -> None:
        ledger = self.cluster.ledgers.get(event.ledger, Ledger())
        repair = self.repairs[event.ledger]
        if not ledger.closed:
            repair.end = max(repair.end, event.entry)
        if repair.stage == "locked":
            firsts = (segment.first_entry for segment in ledger.segments)
            first = max((each for each in firsts if each <= event.entry), default=0)
            targets = repair.targets.setdefault(first, [])
            if event.node not in targets:
                targets.append(event.node)

    def _deferred(self, event: Event) -> bool:
        repair = self.repairs[event.ledger]
        repair.holder, repair.is_waiting = event.node, True
        repair.why = event.explanation
        return True

    def _done(self, event: Event) -> bool:
        repair = self.repairs[event.ledger]
        repair.release()
        repair.marked, repair.missed = False, ()
        return True

    def _noted(self, _event: Event) -> bool:
        return True


_TAKE: dict[str, Callable[[Progress, Event], bool]] = {
    "bookie.registered": Progress._registered,
    "node.started": Progress._started,
    "node.resumed": Progress._resumed,
    "node.paused": Progress._paused,
    "node.killed": Progress._killed,
    "session.lost": Progress._session_lost,
    "bookie.formatted": Progress._noted,
    "autorecovery.restarted": Progress._restarted,
    "auditor.elected": Progress._elected,
    "bookie.lost": Progress._lost,
    "ledger.created": Progress._noted,
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
