"""Test that a fixed run writes the same files as a real bookie of Apache BookKeeper 4.17.4."""

from pathlib import Path

import pytest

from labkit.system.model.entry import (
    DigestType,
    Entry,
    encode_entry,
    encode_explicit_lac,
    make_digest,
)
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk
from tests.system.storage import support
from tests.system.storage.support import CRC32C, KEY, PASSWORD

GOLDEN = support.GOLDEN / "sorted-clean-shutdown"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("bookie")
    disks = RealDisk(root / "j"), RealDisk(root / "l")
    store = LedgerStore(
        disks[:1], disks[1:], StorageConfig(), Recorder("bookie", lambda: 0), 0x1A1FD4B7370
    )
    hmac = make_digest(DigestType.HMAC, PASSWORD)
    for entry, digest in (
        (Entry(5, 0, -1, 5, b"hello"), CRC32C),
        (Entry(5, 1, 0, 10, b"world"), CRC32C),
        (Entry(0x1234, 0, -1, 700, bytes(700)), hmac),
    ):
        data = encode_entry(entry, digest)
        store.add_entry(entry.ledger_id, entry.entry_id, data, KEY)
        store.commit()
    store.set_explicit_lac(5, encode_explicit_lac(5, 1, CRC32C), KEY)
    store.commit()
    store.fence(5, KEY)
    store.close()
    return root


def golden_files() -> list[str]:
    return sorted(str(p.relative_to(GOLDEN)) for p in GOLDEN.rglob("*") if p.is_file())


@pytest.mark.promise("Padding, preallocation, header and records have BookKeeper's bytes")
@pytest.mark.parametrize("name", golden_files())
def test_file_is_byte_identical_to_bookkeepers(written: Path, name: str) -> None:
    ours, theirs = (written / name).read_bytes(), (GOLDEN / name).read_bytes()
    # The golden journal is stored without its preallocated zeros.
    assert ours.rstrip(b"\0") == theirs.rstrip(b"\0")
    assert name.endswith(".txn") or len(ours) == len(theirs)


def test_nothing_else_is_written(written: Path) -> None:
    ours = {str(p.relative_to(written)) for p in written.rglob("*") if p.is_file()}
    assert ours == set(golden_files())


def test_journal_is_preallocated_in_steps_of_16_mib(written: Path) -> None:
    (journal,) = (written / "j/current").glob("*.txn")
    assert journal.stat().st_size == 16 * 1024 * 1024
