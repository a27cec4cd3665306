"""The files of one fixed run are those that a real bookie of Apache BookKeeper 4.17.4 wrote."""

from pathlib import Path

import pytest

from labkit.system.model.entry import (
    DigestType,
    Entry,
    encode_entry,
    encode_explicit_lac,
    make_digest,
    make_master_key,
)
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk

GOLDEN = Path(__file__).parent / "bookkeeper-4.17.4" / "sorted-clean-shutdown"
PASSWORD = b"pw"
KEY = make_master_key(PASSWORD)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bookie")
    disks = RealDisk(root / "j"), RealDisk(root / "l")
    store = LedgerStore(
        disks[:1], disks[1:], StorageConfig(), Recorder("bookie", lambda: 0), 0x1A1FD4B7370
    )
    crc32c = make_digest(DigestType.CRC32C, PASSWORD)
    hmac = make_digest(DigestType.HMAC, PASSWORD)
    for entry, digest in (
        (Entry(5, 0, -1, 5, b"hello"), crc32c),
        (Entry(5, 1, 0, 10, b"world"), crc32c),
        (Entry(0x1234, 0, -1, 700, bytes(700)), hmac),
    ):
        data = encode_entry(entry, digest)
        store.add_entry(entry.ledger_id, entry.entry_id, data, KEY)
        store.commit()
    store.set_explicit_lac(5, encode_explicit_lac(5, 1, crc32c), KEY)
    store.commit()
    store.fence(5, KEY)
    store.close()
    return root


def golden_files() -> list[str]:
    return sorted(str(p.relative_to(GOLDEN)) for p in GOLDEN.rglob("*") if p.is_file())


@pytest.mark.parametrize("name", golden_files())
def test_file_is_byte_identical_to_bookkeepers(written: Path, name: str) -> None:
    ours, theirs = (written / name).read_bytes(), (GOLDEN / name).read_bytes()
    # The stored journal goes without its preallocated zeros.
    assert ours.rstrip(b"\0") == theirs.rstrip(b"\0")
    assert name.endswith(".txn") or len(ours) == len(theirs)


def test_nothing_else_is_written(written: Path) -> None:
    ours = {str(p.relative_to(written)) for p in written.rglob("*") if p.is_file()}
    assert ours == set(golden_files())


def test_journal_is_preallocated_in_steps_of_16_mib(written: Path) -> None:
    (journal,) = (written / "j/current").glob("*.txn")
    assert journal.stat().st_size == 16 * 1024 * 1024
