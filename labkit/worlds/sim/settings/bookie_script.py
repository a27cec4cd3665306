"""Scripts for a single bookie, as immutable objects, and the bookie that executes them.

A promise is an entry, a fence or an explicit LAC that a bookie has acknowledged. Once the step
`Commit` has returned, the bookie must keep the promise, no matter what happens to the machine
afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from labkit.system.model.entry import (
    DigestType,
    Entry,
    encode_entry,
    encode_explicit_lac,
    make_digest,
    make_master_key,
)
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.garbage import logs_to_compact
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder, Sink
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import Keep

PASSWORD = b"pw"
MASTER_KEY = make_master_key(PASSWORD)
DIGEST = make_digest(DigestType.CRC32C, PASSWORD)
FIRST_JOURNAL_ID = 1

CONFIG = StorageConfig(
    journal_max_size_mb=1,
    journal_pre_alloc_size_mb=1,
    journal_max_backups=0,
    log_size_limit=2048,
    page_size=512,
)
"""A configuration with small files, and with journals that are deleted as soon as they are no
longer needed.
"""

StoreFactory = Callable[[Sequence[Disk], Sequence[Disk], StorageConfig, Recorder, int], LedgerStore]
"""Opens a store, which is either `LedgerStore` itself or a variant with a bug."""


class Promise(NamedTuple):
    """An `entry`, a `fence` or a `LAC` that a bookie has acknowledged.

    `number` is the entry id or the LAC.
    """

    kind: str
    ledger_id: int
    number: int = -1

    @property
    def short(self) -> str:
        """The short form for diagrams. For example, `5/0` is an entry, and `5/fence` is a fence."""
        return f"{self.ledger_id}/{self.number if self.kind == 'entry' else self.kind}"

    def __str__(self) -> str:
        of = f"of ledger {self.ledger_id}"
        return f"the fence {of}" if self.kind == "fence" else f"{self.kind} {self.number} {of}"


class ScriptStep(Protocol):
    """A step of a script. `str(step)` describes the step."""

    def run(self, bookie: "ScriptedBookie") -> None: ...


@dataclass(frozen=True, slots=True)
class Machine:
    """The disks of a bookie: one disk per journal directory and one per ledger directory."""

    journals: tuple[SimDisk, ...]
    ledgers: tuple[SimDisk, ...]

    @property
    def disks(self) -> tuple[SimDisk, ...]:
        return self.journals + self.ledgers

    def open(
        self, store_factory: StoreFactory, config: StorageConfig, sink: Sink | None = None
    ) -> LedgerStore:
        recorder = Recorder("bookie", lambda: 0)
        if sink is not None:
            recorder.listen(sink)
        return store_factory(self.journals, self.ledgers, config, recorder, FIRST_JOURNAL_ID)

    def after_crash(self, keep: Keep, controller: DiskController | None = None) -> "Machine":
        """Return the machine as it would be after a power failure."""
        controller = controller or DiskController()
        return self._with_each(lambda disk: disk.after_crash(keep, controller))

    def after_kill(self, controller: DiskController) -> "Machine":
        """Return the machine as it would be if only the process had been killed."""
        return self._with_each(lambda disk: disk.after_kill(controller))

    def _with_each(self, changed: Callable[[SimDisk], SimDisk]) -> "Machine":
        return Machine(tuple(map(changed, self.journals)), tuple(map(changed, self.ledgers)))


def new_machine(
    controller: DiskController, journal_count: int = 1, ledger_dir_count: int = 1
) -> Machine:
    return Machine(
        tuple(SimDisk(controller, f"journal {i}") for i in range(journal_count)),
        tuple(SimDisk(controller, f"ledgers {i}") for i in range(ledger_dir_count)),
    )


class ScriptedBookie:
    def __init__(
        self, machine: Machine, store_factory: StoreFactory, config: StorageConfig
    ) -> None:
        self.requests: dict[Promise, bytes] = {}
        self.promised: tuple[Promise, ...] = ()
        self.step = "start"
        self.in_flush = False
        self.deleted: set[int] = set()
        self.machine = machine
        self.store_factory = store_factory
        self.config = config

    def run(self, script: Sequence[ScriptStep]) -> None:
        """Start the bookie and run every step. Errors of the store are raised."""
        self.start()
        for step in script:
            step.run(self)

    def at(self, step: str) -> None:
        self.step = f"{step} in flush" if self.in_flush else step

    def start(self) -> None:
        """Open the store. The previous store is abandoned, as if its process had been killed."""
        self.store = self.machine.open(self.store_factory, self.config)

    def promise(self) -> None:
        """Record that all requests so far have been acknowledged."""
        self.promised = tuple(p for p in self.requests if p.ledger_id not in self.deleted)


def entry_bytes(ledger_id: int, entry_id: int, payload_size: int) -> bytes:
    """Return an entry as a client would send it. The payload identifies the entry."""
    name = f"{ledger_id}/{entry_id} ".encode()
    payload = (name * (payload_size // len(name) + 1))[:payload_size]
    return encode_entry(
        Entry(ledger_id, entry_id, entry_id - 1, (entry_id + 1) * payload_size, payload), DIGEST
    )


@dataclass(frozen=True, slots=True)
class Add:
    """Add an entry. The next `Commit` acknowledges it."""

    ledger_id: int
    entry_id: int
    payload_size: int = 20

    def __str__(self) -> str:
        return f"add {self.ledger_id}/{self.entry_id}"

    def run(self, bookie: ScriptedBookie) -> None:
        data = entry_bytes(self.ledger_id, self.entry_id, self.payload_size)
        bookie.requests[Promise("entry", self.ledger_id, self.entry_id)] = data
        bookie.store.add_entry(self.ledger_id, self.entry_id, data, MASTER_KEY)


@dataclass(frozen=True, slots=True)
class Fence:
    """Fence a ledger. The next `Commit` acknowledges it."""

    ledger_id: int

    def __str__(self) -> str:
        return f"fence {self.ledger_id}"

    def run(self, bookie: ScriptedBookie) -> None:
        bookie.requests[Promise("fence", self.ledger_id)] = b""
        bookie.store.fence(self.ledger_id, MASTER_KEY)


@dataclass(frozen=True, slots=True)
class SetExplicitLac:
    """Set a ledger's explicit LAC. The next `Commit` acknowledges it."""

    ledger_id: int
    last_add_confirmed: int

    def __str__(self) -> str:
        return f"LAC {self.last_add_confirmed} of {self.ledger_id}"

    def run(self, bookie: ScriptedBookie) -> None:
        body = encode_explicit_lac(self.ledger_id, self.last_add_confirmed, DIGEST)
        bookie.requests[Promise("LAC", self.ledger_id, self.last_add_confirmed)] = body
        bookie.store.set_explicit_lac(self.ledger_id, body, MASTER_KEY)


@dataclass(frozen=True, slots=True)
class Commit:
    """Sync the journal, then acknowledge all requests so far."""

    def __str__(self) -> str:
        return "commit"

    def run(self, bookie: ScriptedBookie) -> None:
        new = (p.short for p in bookie.requests if p not in bookie.promised)
        bookie.at(" ".join((str(self), *new)))
        bookie.store.commit()
        bookie.promise()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Flush the memtable and advance LastLogMark. The steps in `during` run during the flush."""

    during: tuple[ScriptStep, ...] = ()

    def __str__(self) -> str:
        return "checkpoint"

    def run(self, bookie: ScriptedBookie) -> None:
        bookie.at(str(self))
        checkpoint = bookie.store.begin_checkpoint()
        bookie.in_flush = True
        for step in self.during:
            step.run(bookie)
        bookie.in_flush = False
        bookie.at(str(self))
        bookie.store.flush(checkpoint)
        bookie.store.end_checkpoint()


@dataclass(frozen=True, slots=True)
class Restart:
    """Kill the bookie's process and restart it. The machine stays up."""

    def __str__(self) -> str:
        return "restart"

    def run(self, bookie: ScriptedBookie) -> None:
        bookie.at(str(self))
        bookie.start()


@dataclass(frozen=True, slots=True)
class Collect:
    """Delete ledgers, collect garbage, and compact logs whose live share is below `threshold`."""

    deleted: tuple[int, ...] = ()
    threshold: float = 0.8

    def __str__(self) -> str:
        return "collect garbage"

    def run(self, bookie: ScriptedBookie) -> None:
        bookie.at(str(self))
        bookie.deleted.update(self.deleted)
        bookie.promise()
        garbage = bookie.store.garbage
        for log_id in garbage.collect(self.deleted):
            garbage.remove_log(log_id)
        for log_id in logs_to_compact(garbage.logs, self.threshold):
            for _ in garbage.compact(log_id, batch_entries=2):
                pass
            garbage.remove_log(log_id)
