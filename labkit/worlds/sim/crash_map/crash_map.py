"""The crash map: a script of storage operations, stopped before every single disk operation.

Rows are the operations that the script asks of the disks; columns are the ways in which a crash can
treat what was not synced.  In each cell the machine stops, starts again on what is left, and every
promise that it made before is looked up; then the power fails once more, and all is
looked up again.

The script runs only once: before each operation the disks as a crash would leave them are copied,
and the bookie is started on the copies.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from labkit.system.model.entry import decode_entry
from labkit.system.model.errors import (
    BKDigestMatchException,
    NoEntryException,
    NoLedgerException,
    StorageDamagedException,
)
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Row
from labkit.worlds.sim.crash_map.files_left import FileShown, show_files
from labkit.worlds.sim.machine import disk_operation as fate
from labkit.worlds.sim.machine.disk import Fuse
from labkit.worlds.sim.machine.disk_operation import Keep, Operation
from labkit.worlds.sim.settings.bookie_script import (
    CONFIG,
    DIGEST,
    MASTER_KEY,
    Machine,
    Promise,
    ScriptedBookie,
    ScriptStep,
    StoreFactory,
    new_machine,
)

T = TypeVar("T")
SAFE, LOST, INVENTED, REFUSED = "safe", "lost", "invented", "refused"


@dataclass(frozen=True, slots=True)
class CrashVariant:
    """A column: one way in which a crash treats what was not synced."""

    name: str
    meaning: str
    keep: Keep


VARIANTS = (
    CrashVariant("lost", "nothing survives that was not synced", fate.lost),
    CrashVariant("kept", "everything survives: only the process was killed", fate.kept),
    CrashVariant("torn", "of every unsynced write the first half survives, in sectors", fate.torn),
    CrashVariant("names lost", "unsynced bytes survive, unsynced names do not", fate.names_lost),
    CrashVariant("bytes lost", "unsynced names survive, unsynced bytes do not", fate.bytes_lost),
    CrashVariant(
        "random subset", "each unsynced operation is kept, lost or torn at random", fate.by_lot(1)
    ),
)


def random_variants(count: int) -> tuple[CrashVariant, ...]:
    """More columns in which each unsynced operation has its own fate, out of order too."""
    return tuple(
        CrashVariant(f"lot {seed}", "each unsynced operation by itself", fate.by_lot(seed))
        for seed in range(2, 2 + count)
    )


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A row: the machine stops before `operation`, during `step`; `promised` must survive.

    The last row has no operation: the script has ended.
    """

    number: int
    step: str
    operation: Operation | None
    promised: tuple[Promise, ...]

    def __str__(self) -> str:
        if self.operation is None:
            return "after the last operation"
        return f"before {self.operation} ({self.step})"


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one crash.

    verdict: `safe`; `lost`: promises were broken; `invented`: something is there that was never
    added; `refused`: the bookie does not start, `error` says why.  `fates` says how much of each
    unsynced operation survived (0 to 1), `files` what the next start finds, and `replayed` how many
    journal records it and the start after it read.
    """

    verdict: str
    lost: tuple[Promise, ...]
    invented: tuple[str, ...]
    error: str
    fates: tuple[tuple[Operation, float], ...]
    files: tuple[FileShown, ...]
    replayed: tuple[int, ...]

    def __str__(self) -> str:
        if self.verdict == REFUSED:
            return f"the bookie does not start: {self.error}"
        if self.verdict == INVENTED:
            return f"found, but never added: {', '.join(self.invented)}"
        if self.verdict == LOST:
            return f"acknowledged and gone: {', '.join(map(str, self.lost))}"
        return "everything acknowledged is there"


@dataclass(frozen=True, slots=True, repr=False)
class Counterexample:
    """A crash that breaks a promise: where in the map it lies and what it led to."""

    row: int
    column: int
    point: CrashPoint
    variant: CrashVariant
    cell: Cell

    def __str__(self) -> str:
        where = "after the last operation" if self.point.operation is None else str(self.point)
        return f"crash {where}\n    {self.variant.meaning}\n    {self.cell}"

    __repr__ = __str__


class _Numbered(dict[T, int]):
    """Numbers values in the order in which they are first asked for."""

    def __missing__(self, thing: T) -> int:
        return self.setdefault(thing, len(self))


@dataclass(frozen=True, slots=True, repr=False)
class CrashMap:
    """Every crash of one script: `cells[row][column]`, rows as `points`, columns as `variants`."""

    script: tuple[ScriptStep, ...]
    variants: tuple[CrashVariant, ...]
    points: tuple[CrashPoint, ...]
    cells: tuple[tuple[Cell, ...], ...]

    @property
    def is_safe(self) -> bool:
        return self.smallest() is None

    def failures(self) -> Iterator[Counterexample]:
        """Every crash that breaks a promise, those after fewer operations first."""
        for point, row in zip(self.points, self.cells, strict=True):
            for column, cell in enumerate(row):
                if cell.verdict != SAFE:
                    yield Counterexample(point.number, column, point, self.variants[column], cell)

    def smallest(self) -> Counterexample | None:
        """The counterexample with the fewest operations before it; None when all cells are safe."""
        return next(self.failures(), None)

    def as_dict(self) -> dict[str, Any]:
        """The map as plain data, for a picture.  Texts, files and ends are stored once each, in
        separate lists, and referred to by their index.
        """
        texts, files, ends = _Numbered[str](), _Numbered[FileShown](), _Numbered[Cell]()
        rows = [
            [
                (
                    ends[replace(cell, fates=())],
                    [(texts[str(operation)], share) for operation, share in cell.fates],
                )
                for cell in row
            ]
            for row in self.cells
        ]
        points = [
            {
                "step": point.step,
                "operation": str(point.operation or ""),
                "promised": [texts[str(promise)] for promise in point.promised],
            }
            for point in self.points
        ]
        ended = [
            {
                "verdict": cell.verdict,
                "words": str(cell),
                "replayed": cell.replayed,
                "files": [files[file] for file in cell.files],
            }
            for cell in ends
        ]
        return {
            "variants": [(variant.name, variant.meaning) for variant in self.variants],
            "points": points,
            "cells": rows,
            "ends": ended,
            "files": [
                (file.path, file.size, file.words, file.excerpt_offset, file.excerpt.hex(" "))
                for file in files
            ],
            "texts": list(texts),
        }

    def __repr__(self) -> str:
        found = list(self.failures())
        cell_count = len(self.points) * len(self.variants)
        counts = f"{len(self.points)} crash points, {cell_count} cells"
        if not found:
            return f"CrashMap: {counts}, all safe"
        return f"CrashMap: {counts}, {len(found)} unsafe; first: {found[0]}"


def crash_map(
    script: Sequence[ScriptStep],
    variants: Sequence[CrashVariant] = VARIANTS,
    store_factory: StoreFactory = LedgerStore,
    config: StorageConfig = CONFIG,
    journal_count: int = 1,
    ledger_dir_count: int = 1,
) -> CrashMap:
    """Run the script once, and crash it everywhere.

    `store_factory` opens the store, in the script and after each crash.  What it raises beside
    `StorageDamagedException` is raised here too.
    """
    fuse = Fuse()
    machine = new_machine(fuse, journal_count, ledger_dir_count)
    bookie = ScriptedBookie(machine, store_factory, config)
    crashes = _Crashes(machine, bookie, store_factory, config)
    points: list[CrashPoint] = []
    cells: list[tuple[Cell, ...]] = []

    def crash(operation: Operation | None) -> None:
        points.append(CrashPoint(len(points), bookie.step, operation, bookie.promised))
        cells.append(tuple(crashes.cell(variant.keep) for variant in variants))

    fuse.watch = crash
    try:
        bookie.run(script)
        bookie.step = "end"
    except StorageDamagedException:
        # A restart of the script that the store refuses: the last row says so too.
        bookie.step = "refused"
    fuse.watch = None
    crash(None)
    return CrashMap(tuple(script), tuple(variants), tuple(points), tuple(cells))


class _Crashes:
    """All crashes of one run.  Those that leave the same disks lead to the same end."""

    def __init__(
        self,
        machine: Machine,
        bookie: ScriptedBookie,
        store_factory: StoreFactory,
        config: StorageConfig,
    ) -> None:
        self._machine = machine
        self._bookie = bookie
        self._store_factory = store_factory
        self._config = config
        self._known: dict[tuple[object, ...], Cell] = {}

    def cell(self, keep: Keep) -> Cell:
        """Crash a copy of the machine as it is now, in every way."""
        left = self._machine.after_crash(keep)
        bookie = self._bookie
        # Equal disks lead to equal ends only where the same was promised.
        account = len(bookie.told), bookie.promised, len(bookie.deleted)
        key = (*account, *(disk.fingerprint() for disk in left.disks))
        if key not in self._known:
            self._known[key] = self._start_on(left)
        unsynced = (op for disk in self._machine.disks for op in disk.unsynced())
        return replace(self._known[key], fates=tuple((op, keep(op)) for op in unsynced))

    def _start_on(self, machine: Machine) -> Cell:
        """Start, look; cut the power, start, look again."""
        files = show_files(machine.disks)
        found, error, replayed = _Findings(), "", []
        try:
            # Twice: what the first start repaired must survive the next power cut.
            for _ in range(2):
                rows: list[Row] = []
                store = machine.open(self._store_factory, self._config, rows.extend)
                replayed.append(sum(r.size for r in rows if r.kind == "journal.replayed"))
                _look_up(store, self._bookie, found)
                machine = machine.after_crash(fate.lost)
        except StorageDamagedException as refusal:
            error = str(refusal)
        verdict = REFUSED if error else LOST if found.lost else INVENTED if found.invented else SAFE
        return Cell(
            verdict, tuple(found.lost), tuple(found.invented), error, (), files, tuple(replayed)
        )


@dataclass(slots=True)
class _Findings:
    """Broken promises and inventions, each once, in the order in which they were found."""

    lost: dict[Promise, None] = field(default_factory=dict)
    invented: dict[str, None] = field(default_factory=dict)


def _look_up(store: LedgerStore, bookie: ScriptedBookie, found: _Findings) -> None:
    """Look for everything that the bookie was asked to keep, and for anything else it has."""
    promised = set(bookie.promised)
    for promise, data in bookie.told.items():
        # Of a deleted ledger nothing is promised, and nothing has to be gone yet.
        if promise.ledger_id in bookie.deleted:
            continue
        kept = _is_kept(store, bookie, promise, data)
        if not kept and promise in promised:
            found.lost[promise] = None
        elif kept is None:
            found.invented[f"other bytes of {promise}"] = None
    ledgers = {promise.ledger_id for promise in bookie.told}
    for ledger_id in store.ledger_ids():
        last = max((p.number for p in bookie.told if p[:2] == ("entry", ledger_id)), default=-1)
        ledger = store.ledger(ledger_id)
        if ledger_id not in ledgers or store.last_entry_id(ledger_id) > last:
            found.invented[f"entry {store.last_entry_id(ledger_id)} of ledger {ledger_id}"] = None
        if ledger and ledger.master_key != MASTER_KEY:
            found.invented[f"another master key of ledger {ledger_id}"] = None
        if ledger and ledger.fenced and Promise("fence", ledger_id) not in bookie.told:
            found.invented[str(Promise("fence", ledger_id))] = None


def _is_kept(
    store: LedgerStore, bookie: ScriptedBookie, promise: Promise, data: bytes
) -> bool | None:
    """Whether the store has it; None when it has something else that a client would believe."""
    ledger_id, number = promise.ledger_id, promise.number
    ledger = store.ledger(ledger_id)
    if promise.kind == "fence":
        return ledger is not None and ledger.fenced
    if promise.kind == "LAC":
        newer = {d for p, d in bookie.told.items() if p[:2] == promise[:2] and p.number >= number}
        return ledger is not None and ledger.explicit_lac in newer
    try:
        stored = store.read_entry(ledger_id, number)
        if stored == data:
            return True
        decode_entry(stored, DIGEST, ledger_id, number)
    except (NoLedgerException, NoEntryException, StorageDamagedException, BKDigestMatchException):
        # Journal records have no checksum, so a torn one may be read; the client's digest shows it.
        return False
    return None
