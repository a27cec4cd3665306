"""Fuzz a bookie's startup and the shell commands on real directories that contain unexpected files.

A path may turn out to be a FIFO, a directory, a link, a sparse file of several terabytes, or a file
that is missing or truncated. The input is a sequence of changes, each of which is encoded in three
bytes: the kind of change, the path, and an amount.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from labkit.system.model.errors import LabkitError
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.entry_log import read_log, read_log_metadata
from labkit.views.shell.files import list_files
from labkit.views.shell.folders import open_folders, parse_file_id
from labkit.views.shell.journal import last_marks, read_journal
from labkit.views.shell.ledgers import list_ledgers, read_index, read_ledger
from labkit.views.shell.rebuild import rebuild_index
from labkit.views.shell.xray import file_spans
from labkit.worlds.live.disk import RealDisk, lock_directory
from labkit.worlds.sim.machine.disk import SimDisk
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY, entry_bytes
from tests.fuzz.harness import Target
from tests.fuzz.storage_targets import CONFIG, DISKS, INDEX, LEDGER, content, each, reads

Change = Callable[[Path, int], object]

PLACES = (
    *("journal/current/1.txn", "journal/current/2.txn", "journal/current", "journal/lock"),
    *("ledgers/current/0.log", "ledgers/current/1.log", "ledgers/current/7fffffff.log"),
    *(f"ledgers/{INDEX}", "ledgers/current/0/5", "ledgers/current/0", "ledgers/current/0/7/7.idx"),
    *("ledgers/current/lastMark", "ledgers/current/lastMark.new", "ledgers/current/lastId"),
    *("ledgers/current/ledgers", "ledgers/current/locations", "ledgers/current/x.idx"),
    *("ledgers/current/0/5/5.idx.new", "ledgers/current/0/5/5.idx.rloc", "ledgers/VERSION"),
)


def _make_room(path: Path) -> None:
    """Remove whatever exists at the path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _instead(make: Callable[[Path], object]) -> Change:
    def change(path: Path, _: int) -> None:
        _make_room(path)
        make(path)

    return change


def _link_to(target: str) -> Change:
    return _instead(lambda path: path.symlink_to(target))


def _resize(path: Path, size: int) -> None:
    """Truncate or extend the file, skipping FIFOs because opening one would block."""
    if path.is_symlink() or (path.exists() and not path.is_file()):
        return
    with path.open("ab") as file:
        file.truncate(2 ** (size % 44) if size % 2 else size)


def _fill(path: Path, size: int) -> None:
    _make_room(path)
    path.write_bytes(bytes([size | 0x80]) * size)


CHANGES: tuple[Change, ...] = (
    _instead(os.mkfifo),
    _instead(Path.mkdir),
    _link_to("/dev/zero"),
    _link_to("nowhere"),
    _link_to("."),
    _resize,
    _resize,
    _fill,
    lambda path, _: _make_room(path),
    lambda path, place: path.rename(path.with_name(Path(PLACES[place % len(PLACES)]).name)),
)


@contextmanager
def _crafted(data: bytes) -> Iterator[Path]:
    """Create a bookie's directories and apply the changes that the input encodes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, disk in zip(("journal", "ledgers"), DISKS[6], strict=True):
            for written in disk.paths():
                _copy(disk, written, folder / kind / written)
        for what, where, how_much in zip(data[::3], data[1::3], data[2::3], strict=False):
            path = folder / PLACES[where % len(PLACES)]
            with suppress(OSError):  # An earlier change may have removed the parent directory.
                path.parent.mkdir(parents=True, exist_ok=True)
                CHANGES[what % len(CHANGES)](path, how_much)
        yield folder


def _copy(disk: SimDisk, path: str, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(content(disk, path))


def _names_its_path(call: Callable[[], object]) -> object:
    """Make the call, and treat an `OSError` without a path as a finding."""
    try:
        return call()
    except OSError as error:
        if error.filename is None:
            raise AssertionError(f"OSError without a path: {error}") from error
        raise


def start_bookie(data: bytes) -> None:
    """Lock the directories, open the store, read everything, collect garbage, write and flush."""
    with _crafted(data) as folder:
        _names_its_path(partial(_start, folder))


def _start(folder: Path) -> None:
    journal, ledgers = folder / "journal", folder / "ledgers"
    for directory in (journal, ledgers):
        lock_directory(directory)
    recorder = Recorder("bookie", lambda: 0)
    store = LedgerStore([RealDisk(journal)], [RealDisk(ledgers)], CONFIG, recorder, 9)
    with suppress(LabkitError):
        each(*reads(store))
    for log_id in store.garbage.collect([LEDGER]):
        store.garbage.remove_log(log_id)
    store.add_entry(77, 0, entry_bytes(77, 0, 20), MASTER_KEY)
    store.close()


def look_into(data: bytes) -> None:
    """Run every shell command that reads a bookie's directories."""
    with _crafted(data) as folder:
        _names_its_path(partial(_look, folder))


def _look(folder: Path) -> None:
    folders = open_folders([folder / "journal"], [folder / "ledgers"])
    each(
        lambda: list_files(folders),
        lambda: last_marks(folders),
        lambda: iter(read_journal(folders, parse_file_id("1.txn", ".txn", 10))),
        lambda: iter(read_log(folders, parse_file_id("0.log", ".log", 10))),
        lambda: read_log_metadata(folders, parse_file_id("0.log", ".log", 10)),
        lambda: iter(read_index(folders, LEDGER)),
        lambda: iter(read_ledger(folders, LEDGER)),
        lambda: iter(list_ledgers(folders)),
        lambda: check_consistency(folders),
        lambda: rebuild_index(folders, LEDGER),
        lambda: iter(file_spans(folder / "ledgers" / INDEX)),
        lambda: iter(file_spans(folder / "journal" / "current" / "1.txn")),
    )


_HOLE, _GONE = CHANGES.index(_resize), 8
SEEDS = (
    b"",
    bytes([_HOLE, PLACES.index("ledgers/current/0.log"), 43]),
    bytes([_GONE, PLACES.index("ledgers/current/lastId"), 0]),
    bytes([_GONE, PLACES.index("ledgers/VERSION"), 0] * 4),
)
DIRECTORY_TARGETS = (
    Target("bookie's start over directories", start_bookie, SEEDS, (LabkitError, OSError)),
    Target("shell over directories", look_into, SEEDS, (LabkitError, OSError)),
)
