"""The crash map: a script of storage operations, with a crash before every disk operation.

Each row is a disk operation of the script, and each column is a way in which a crash can treat
unsynced data. For each cell, the machine stops and restarts with the data that survived the crash.
Then every promise that the machine made before the crash is checked. After that, the power fails
again, and everything is checked once more. By that time, the operating system has written all data
that survived the first crash to the disk, even if that crash killed only the process.

The script runs only once. Before each of its operations, the disks are copied in the state in which
a crash would leave them, and a bookie is started on the copies.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
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
from labkit.system.trace.events import Event
from labkit.worlds.sim.crash_map.files_left import FileShown, show_files
from labkit.worlds.sim.machine import disk_operation as fate
from labkit.worlds.sim.machine.disk import DiskController
from labkit.worlds.sim.machine.disk_operation import Keep, Operation
from labkit.worlds.sim.run_link import link_to_crash_map
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
from labkit.worlds.sim.variants.storage_variants import DEFECTS

T = TypeVar("T")
SAFE, LOST, INVENTED, REFUSED = "safe", "lost", "invented", "refused"


@dataclass(frozen=True, slots=True)
class CrashVariant:
    """A column of the crash map: one way in which a crash treats unsynced data."""

    name: str
    meaning: str
    keep: Keep


VARIANTS = (
    CrashVariant("lost", "no unsynced data survives", fate.lost),
    CrashVariant("kept", "everything survives, because only the process was killed", fate.kept),
    CrashVariant(
        "torn", "of every unsynced write, the first half survives (in whole sectors)", fate.torn
    ),
    CrashVariant(
        "names lost", "unsynced bytes survive, unsynced directory changes do not", fate.names_lost
    ),
    CrashVariant(
        "bytes lost", "unsynced directory changes survive, unsynced bytes do not", fate.bytes_lost
    ),
    CrashVariant(
        "random subset",
        "each unsynced operation is kept, lost or torn at random",
        fate.at_random(1),
    ),
)


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """A row of the crash map: the machine stops before `operation`, during `step`.

    After a restart, the store must contain everything in `promised`. The last row stands for a
    crash after the end of the script, and its `operation` is None.
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

    verdict: `safe`, `lost` (a promise was broken), `invented` (the store returns something that was
        never added) or `refused` (the bookie does not start, and `error` explains why).
    fates: how much (0 to 1) of each unsynced operation survived.
    files: the files that the first restart found.
    replayed: the number of journal records that each of the two restarts read.
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
            return f"found but never added: {', '.join(self.invented)}"
        if self.verdict == LOST:
            return f"acknowledged but lost: {', '.join(map(str, self.lost))}"
        return "everything acknowledged survived"


@dataclass(frozen=True, slots=True, repr=False)
class Counterexample:
    row: int
    column: int
    point: CrashPoint
    variant: CrashVariant
    cell: Cell

    def __str__(self) -> str:
        return f"crash {self.point}\n    {self.variant.meaning}\n    {self.cell}"

    __repr__ = __str__


class _Numbered(dict[T, int]):
    """Numbers values in the order in which they are first used."""

    def __missing__(self, value: T) -> int:
        return self.setdefault(value, len(self))


@dataclass(frozen=True, slots=True, repr=False)
class CrashMap:
    """All crashes of a script. `cells[row][column]` is the result of one crash: `points` describes
    the rows and `variants` the columns.

    defect: the name of the store's bug, "" for labkit's own store, or None if the store ran other
        code, such as a learner's.
    """

    script: tuple[ScriptStep, ...]
    variants: tuple[CrashVariant, ...]
    points: tuple[CrashPoint, ...]
    cells: tuple[tuple[Cell, ...], ...]
    defect: str | None
    config: StorageConfig
    journal_count: int
    ledger_dir_count: int

    @property
    def is_safe(self) -> bool:
        return self.smallest() is None

    def failures(self) -> Iterator[Counterexample]:
        for point, row in zip(self.points, self.cells, strict=True):
            for column, cell in enumerate(row):
                if cell.verdict != SAFE:
                    yield Counterexample(point.number, column, point, self.variants[column], cell)

    def smallest(self) -> Counterexample | None:
        """Return the first unsafe cell in script order, or None if all cells are safe."""
        return next(self.failures(), None)

    def losing_crashes(self) -> str:
        """Return the kinds of crashes that lose data: "process", "power", "both" or "none"."""
        by_a_kill = {found.variant.keep is fate.kept for found in self.failures()}
        if len(by_a_kill) != 1:
            return "both" if by_a_kill else "none"
        return "process" if by_a_kill.pop() else "power"

    @property
    def digest(self) -> str:
        """A digest that is equal for two maps with the same crashes and the same results."""
        return blake2b(json.dumps(self.as_dict()).encode(), digest_size=16).hexdigest()

    def link(self, at: int = 0, code: str = "") -> str:
        """Return a link that opens this map at the cell with the given number (counted row by row).
        Return "" if a link cannot describe the map. `labkit open` and `open_run` open such links.

        code: the learner's code that ran, if the link should include it as text. Even then, the
            link runs the script with labkit's own store.
        """
        if (self.variants, self.config) != (VARIANTS, CONFIG):
            return ""
        return link_to_crash_map(
            self.defect,
            code,
            digest=self.digest,
            journal_count=self.journal_count,
            ledger_dir_count=self.ledger_dir_count,
            script=self.script,
            at=at,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the map as JSON-like data for a diagram. Parts that occur several times are stored
        once, and are referred to by their list index.
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
                (file.path, file.size, file.description, file.excerpt_offset, file.excerpt.hex(" "))
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
    """Run the script, and try every kind of crash before each of its disk operations.

    `store_factory` opens the store, both in the script and after each crash. If the store raises
    any exception other than `StorageDamagedException`, this function re-raises it.
    """
    controller = DiskController()
    machine = new_machine(controller, journal_count, ledger_dir_count)
    bookie = ScriptedBookie(machine, store_factory, config)
    crashes = _Crashes(bookie)
    points: list[CrashPoint] = []
    cells: list[tuple[Cell, ...]] = []

    def crash(operation: Operation | None) -> None:
        points.append(CrashPoint(len(points), bookie.step, operation, bookie.promised))
        cells.append(tuple(crashes.cell(variant.keep) for variant in variants))

    controller.watch = crash
    try:
        bookie.run(script)
        bookie.step = "end"
    except StorageDamagedException:
        # A restart in the script failed. The last row of the map reports the error.
        bookie.step = "refused"
    controller.watch = None
    crash(None)
    factories = {"": LedgerStore} | {name: each.store_factory for name, each in DEFECTS.items()}
    return CrashMap(
        tuple(script),
        tuple(variants),
        tuple(points),
        tuple(cells),
        next((name for name, each in factories.items() if each is store_factory), None),
        config,
        journal_count,
        ledger_dir_count,
    )


class _Crashes:
    """All crashes of one run. Crashes that leave identical disks behind share their result."""

    def __init__(self, bookie: ScriptedBookie) -> None:
        self._bookie = bookie
        self._results: dict[tuple[object, ...], Cell] = {}

    def cell(self, keep: Keep) -> Cell:
        bookie = self._bookie
        crashed = bookie.machine.after_crash(keep)
        # Crashes that leave identical disks behind have the same result only if the bookie had made
        # the same promises before each of them.
        promises = len(bookie.requests), bookie.promised, len(bookie.deleted)
        key = (*promises, *(disk.fingerprint() for disk in crashed.disks))
        if key not in self._results:
            self._results[key] = self._restart_on(crashed)
        unsynced = (op for disk in bookie.machine.disks for op in disk.unsynced())
        return replace(self._results[key], fates=tuple((op, keep(op)) for op in unsynced))

    def _restart_on(self, machine: Machine) -> Cell:
        """Start the store and check it, then cut the power, restart the store and check it
        again.
        """
        files, bookie = show_files(machine.disks), self._bookie
        lost, invented = dict[Promise, None](), dict[str, None]()
        error, replayed = "", []
        try:
            # Check twice, because anything that the first restart has repaired must survive another
            # power failure.
            for _ in range(2):
                rows: list[Event] = []
                store = machine.open(bookie.store_factory, bookie.config, rows.extend)
                replayed.append(sum(r.size for r in rows if r.kind == "journal.replayed"))
                _check_promises(store, bookie, lost, invented)
                machine = machine.after_crash(fate.lost)
        except StorageDamagedException as refusal:
            error = str(refusal)
        verdict = REFUSED if error else LOST if lost else INVENTED if invented else SAFE
        return Cell(verdict, tuple(lost), tuple(invented), error, (), files, tuple(replayed))


def _check_promises(
    store: LedgerStore,
    bookie: ScriptedBookie,
    lost: dict[Promise, None],
    invented: dict[str, None],
) -> None:
    """Add the promises that the store has lost, and everything that it contains although it was
    never added.
    """
    promised = set(bookie.promised)
    for promise, data in bookie.requests.items():
        # Skip deleted ledgers, because the bookie promises nothing about them, and their data may
        # still exist.
        if promise.ledger_id in bookie.deleted:
            continue
        kept = _is_kept(store, bookie, promise, data)
        if not kept and promise in promised:
            lost[promise] = None
        elif kept is None:
            invented[f"different bytes for {promise}"] = None
    ledgers = {promise.ledger_id for promise in bookie.requests}
    for ledger_id in store.ledger_ids():
        last = max((p.number for p in bookie.requests if p[:2] == ("entry", ledger_id)), default=-1)
        ledger = store.ledger(ledger_id)
        if ledger_id not in ledgers or store.last_entry_id(ledger_id) > last:
            invented[f"entry {store.last_entry_id(ledger_id)} of ledger {ledger_id}"] = None
        if ledger and ledger.master_key != MASTER_KEY:
            invented[f"a different master key for ledger {ledger_id}"] = None
        if ledger and ledger.fenced and Promise("fence", ledger_id) not in bookie.requests:
            invented[str(Promise("fence", ledger_id))] = None


def _is_kept(
    store: LedgerStore, bookie: ScriptedBookie, promise: Promise, data: bytes
) -> bool | None:
    """Return whether the store has the promised data, or None if it has different data that clients
    would accept.
    """
    ledger_id, number = promise.ledger_id, promise.number
    ledger = store.ledger(ledger_id)
    if promise.kind == "fence":
        return ledger is not None and ledger.fenced
    if promise.kind == "LAC":
        newer = {
            d for p, d in bookie.requests.items() if p[:2] == promise[:2] and p.number >= number
        }
        return ledger is not None and ledger.explicit_lac in newer
    try:
        stored = store.read_entry(ledger_id, number)
        if stored == data:
            return True
        decode_entry(stored, DIGEST, ledger_id, number)
    except (NoLedgerException, NoEntryException, StorageDamagedException, BKDigestMatchException):
        # Journal records have no checksum, so the store may return the data of a torn record. A
        # client detects this when it checks the digest.
        return False
    return None
