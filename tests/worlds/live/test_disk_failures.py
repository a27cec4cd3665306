"""A real bookie survives disks that are full, read-only or replaced.

It reports the problem, and serves every acknowledged entry once the problem is fixed.
"""

import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labkit.system.metadata.registration import writable_bookies
from labkit.worlds.live.host.exit_codes import EXIT_DISK_FAILED, EXIT_FAILED, EXIT_OK
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.system.bookie.raw import RawClient, add, added, answer, entry, read
from tests.until import until_true
from tests.worlds.live.real_bookie import RealBookie

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEDGER = 5
PAYLOAD = bytes(range(256)) * 16
READ_ONLY = 105
HIGH_PRIORITY = 4
NO_SPACE = "No space left on device"
WITHOUT_A_LOG = ("sh", "-c", 'exec "$@" 2>/dev/full', "sh")
QUICK: dict[str, object] = {"flushInterval": 50, "skipListSizeLimit": 64 * 1024}


class SmallDisk:
    """A 3 MiB file system in memory, which tests can remount as read-only or with another size."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def remount(self, options: str) -> None:
        command = ["mount", "-o", f"remount,{options}", str(self.folder)]
        subprocess.run(command, check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "small"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if shutil.which("mount") is None:
        pytest.skip("mount is not on the PATH")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def add_until_refused(client: RawClient) -> tuple[int, bytes]:
    """Add entries until one fails; return the number of acknowledged entries and the response.

    The response is empty if the bookie exited without sending one.
    """
    for entry_id in range(100_000):
        try:
            said = await client.ask(add(LEDGER, entry_id, PAYLOAD))
        except (ConnectionError, EOFError):
            return entry_id, b""
        if said != added(LEDGER, entry_id):
            return entry_id, said
    raise AssertionError("the disk did not fill up")


async def check(client: RawClient, entry_count: int) -> None:
    for n in range(entry_count):
        found = await client.ask(read(LEDGER, n))
        assert found == answer(2, 0, LEDGER, n, entry(LEDGER, n, PAYLOAD))


async def check_again(bookie: RealBookie, entry_count: int) -> None:
    async with bookie, RawClient(bookie.port) as client:
        await check(client, entry_count)


async def store_one_entry(bookie: RealBookie) -> None:
    """Run the bookie until it has acknowledged an entry."""
    async with bookie, RawClient(bookie.port) as client:
        assert await client.ask(add(LEDGER, 0, PAYLOAD)) == added(LEDGER, 0)
        assert await bookie.stop() == (EXIT_OK, "")


async def refusal(bookie: RealBookie, exit_code: int = EXIT_FAILED) -> str:
    """Start a bookie that does not start, and return the line that it prints."""
    await bookie.launch()
    return await last_line(bookie, exit_code)


async def last_line(bookie: RealBookie, exit_code: int) -> str:
    code, said = await bookie.last_words()
    assert (code, said.count("\n")) == (exit_code, 1)
    return said


async def test_bookie_whose_ledger_disk_is_full_reads_on_and_takes_writes_when_it_has_room(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore, tmp_path: Path, small_disk: SmallDisk
) -> None:
    async def is_writable() -> bool:
        return "full" in await writable_bookies(store)

    async def is_read_only() -> bool:
        return not await is_writable()

    keys = QUICK | {"ledgerDirectories": small_disk.folder / "ledgers"}
    bookie = RealBookie(tmp_path / "full", zookeeper.address, keys)
    filler = small_disk.folder / "filler"
    filler.write_bytes(bytes(2 << 20))
    async with bookie, RawClient(bookie.port) as client:
        acked, said = await add_until_refused(client)
        assert said == added(LEDGER, acked, READ_ONLY)
        await until_true(is_read_only)
        await check(client, acked)
        urgent = add(LEDGER, acked, PAYLOAD, flags=HIGH_PRIORITY)
        assert await client.ask(urgent) == added(LEDGER, acked)
        filler.unlink()
        await until_true(is_writable)
        assert await client.ask(add(LEDGER, acked + 1, PAYLOAD)) == added(LEDGER, acked + 1)
        await check(client, acked + 2)
    await check_again(bookie, acked + 2)


async def test_bookie_whose_log_is_on_the_full_disk_is_read_only_and_reads_on(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore, tmp_path: Path
) -> None:
    async def is_read_only() -> bool:
        return "no-log" in await store.children(store.location.read_only)

    keys: dict[str, object] = {"diskUsageThreshold": 1e-9, "diskUsageWarnThreshold": 1e-9}
    bookie = RealBookie(tmp_path / "no-log", zookeeper.address, keys, WITHOUT_A_LOG)
    async with bookie, RawClient(bookie.port) as client:
        await until_true(is_read_only)
        said = await client.ask(add(LEDGER, 0, PAYLOAD))
        assert said == added(LEDGER, 0, READ_ONLY)
        assert await bookie.stop() == (EXIT_OK, "")


async def test_the_exit_code_reports_a_failed_disk_where_the_log_cannot(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, small_disk: SmallDisk
) -> None:
    small_disk.remount("ro")
    keys: dict[str, object] = {"ledgerDirectories": small_disk.folder / "ledgers"}
    bookie = RealBookie(tmp_path / "failed", zookeeper.address, keys, WITHOUT_A_LOG)
    await bookie.launch()
    assert await bookie.last_words() == (EXIT_DISK_FAILED, "")


@pytest.mark.promise("A bookie that starts on a full disk is read-only and loses nothing")
async def test_bookie_killed_while_its_ledger_disk_is_full_starts_read_only_until_it_has_room(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore, tmp_path: Path, small_disk: SmallDisk
) -> None:
    async def is_writable() -> bool:
        return "full-killed" in await writable_bookies(store)

    keys = QUICK | {"ledgerDirectories": small_disk.folder / "ledgers"}
    bookie = RealBookie(tmp_path / "full-killed", zookeeper.address, keys)
    async with bookie, RawClient(bookie.port) as client:
        acked, said = await add_until_refused(client)
        assert said == added(LEDGER, acked, READ_ONLY)
    # Start it twice, because starting without free space must not use up any.
    for _ in range(2):
        async with bookie, RawClient(bookie.port) as client:
            assert not await is_writable()
            assert await client.ask(add(LEDGER, acked, PAYLOAD)) == added(LEDGER, acked, READ_ONLY)
            await check(client, acked)
    async with bookie, RawClient(bookie.port) as client:
        small_disk.remount("size=32m")
        await until_true(is_writable)
        assert await client.ask(add(LEDGER, acked, PAYLOAD)) == added(LEDGER, acked)
    await check_again(bookie, acked + 1)


async def test_bookie_that_may_not_be_read_only_says_what_is_missing_and_stops(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, small_disk: SmallDisk
) -> None:
    keys = QUICK | {
        "ledgerDirectories": small_disk.folder / "ledgers",
        "readOnlyModeEnabled": "false",
    }
    bookie = RealBookie(tmp_path / "never-read-only", zookeeper.address, keys)
    async with bookie, RawClient(bookie.port) as client:
        acked, _ = await add_until_refused(client)
        assert acked > 0
        words = await last_line(bookie, EXIT_FAILED)
        assert "free disk space, or set readOnlyModeEnabled=true" in words
    words = await refusal(bookie)
    assert f"{small_disk.folder}/ledgers is" in words
    assert "not enough space for the replayed entries" in words
    small_disk.remount("size=32m")
    await check_again(bookie, acked)


async def test_bookie_whose_journal_disk_is_full_stops_and_acknowledges_nothing_more(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, small_disk: SmallDisk
) -> None:
    keys: dict[str, object] = {"journalDirectories": small_disk.folder / "journal"}
    bookie = RealBookie(tmp_path / "full-journal", zookeeper.address, keys)
    async with bookie, RawClient(bookie.port) as client:
        acked, said = await add_until_refused(client)
        assert (acked > 100, said) == (True, b"")
        words = await last_line(bookie, EXIT_DISK_FAILED)
        assert NO_SPACE in words
        assert f"{small_disk.folder}/journal/current/" in words
        assert "free some space on that file system" in words
    small_disk.remount("size=32m")
    await check_again(bookie, acked)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("long-journal", {}),
        ("long-log", QUICK | {"journalMaxSizeMB": 1}),
    ],
)
async def test_bookie_stops_when_a_file_cannot_grow(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, name: str, keys: dict[str, object]
) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not on the PATH")
    limits = ("prlimit", f"--fsize={3 << 20}")
    limited = RealBookie(tmp_path / name, zookeeper.address, keys, limits)
    async with limited, RawClient(limited.port) as client:
        acked, said = await add_until_refused(client)
        assert (acked > 100, said) == (True, b"")
        words = await last_line(limited, EXIT_DISK_FAILED)
        assert os.strerror(errno.EFBIG) in words
        assert f"{limited.folder}/" in words
        assert "ulimit -f" in words
    await check_again(RealBookie(tmp_path / name, zookeeper.address, keys), acked)


@pytest.mark.promise("Read-only directories and missing or foreign cookies are reported")
async def test_bookie_over_a_read_only_folder_says_so_and_starts_when_it_is_writable(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, small_disk: SmallDisk
) -> None:
    keys: dict[str, object] = {"ledgerDirectories": small_disk.folder / "ledgers"}
    bookie = RealBookie(tmp_path / "unwritable", zookeeper.address, keys)
    await store_one_entry(bookie)
    small_disk.remount("ro")
    said = await refusal(bookie, EXIT_DISK_FAILED)
    assert str(small_disk.folder) in said
    assert os.strerror(errno.EROFS) in said
    assert "mount it writable" in said
    small_disk.remount("rw")
    await check_again(bookie, 1)


@pytest.mark.parametrize(
    ("name", "make", "words"),
    [
        ("ledgers/current/locations", Path.mkdir, "belongs to BookKeeper's DbLedgerStorage"),
        ("journal/current/7.txn", os.mkfifo, "is a FIFO, expected a file: "),
        ("ledgers/current/7.log", os.mkfifo, "is a FIFO, expected a file: "),
        ("ledgers/current/0/7/7.idx", os.mkfifo, "is a FIFO, expected a file: "),
    ],
    ids=lambda value: value.replace("/", "-") if isinstance(value, str) else "",
)
async def test_bookie_over_what_is_not_its_own_says_where_it_lies_and_changes_nothing(
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    name: str,
    make: Callable[[Path], object],
    words: str,
) -> None:
    bookie = RealBookie(tmp_path / name.replace("/", "-"), zookeeper.address, {})
    await store_one_entry(bookie)
    path = bookie.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    before = sorted(map(str, bookie.folder.rglob("*")))
    assert f"{path} {words}" in await refusal(bookie)
    assert sorted(map(str, bookie.folder.rglob("*"))) == before
    path.rmdir() if path.is_dir() else path.unlink()
    await check_again(bookie, 1)


async def test_bookies_whose_directories_lie_side_by_side_share_none_of_them(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    first, second = (
        {"journalDirectories": tmp_path / f"j{n}", "ledgerDirectories": tmp_path / f"l{n}"}
        for n in (1, 2)
    )
    async with RealBookie(tmp_path / "side-1", zookeeper.address, dict(first)) as bookie:
        async with RealBookie(tmp_path / "side-2", zookeeper.address, dict(second)):
            pass
        shared = {**second, "ledgerDirectories": tmp_path / "l1"}
        thief = RealBookie(tmp_path / "side-3", zookeeper.address, dict(shared))
        said = await refusal(thief)
        assert f"{tmp_path / 'l1'} is in use by another bookie process" in said
        async with RawClient(bookie.port) as client:
            assert await client.ask(add(LEDGER, 0, PAYLOAD)) == added(LEDGER, 0)


@pytest.mark.parametrize("directory", ["journal", "ledgers"])
async def test_bookie_without_a_cookie_in_one_directory_does_not_start(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, directory: str
) -> None:
    bookie = RealBookie(tmp_path / f"no-cookie-{directory}", zookeeper.address, {})
    await store_one_entry(bookie)
    cookie = bookie.folder / directory / "current" / "VERSION"
    aside = cookie.rename(bookie.folder / "VERSION")
    assert "a disk is missing or was replaced" in await refusal(bookie)
    aside.rename(cookie)
    await check_again(bookie, 1)


async def test_bookie_over_the_disk_of_another_bookie_does_not_start(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    mine = RealBookie(tmp_path / "mine", zookeeper.address, {})
    other = RealBookie(tmp_path / "other", zookeeper.address, {})
    for bookie in (mine, other):
        await store_one_entry(bookie)
    (mine.folder / "ledgers").rename(mine.folder / "aside")
    shutil.copytree(other.folder / "ledgers", mine.folder / "ledgers")
    assert "does not match this bookie: bookie_id is 'other' there and '" in await refusal(mine)
    shutil.rmtree(mine.folder / "ledgers")
    (mine.folder / "aside").rename(mine.folder / "ledgers")
    await check_again(mine, 1)
