"""Bookies work on macOS without Linux features, and their syncs reach the drive."""

import sys
from pathlib import Path

import pytest

from tests.programs import output_of
from tests.systems.on_system import ROOT, python_on

pytestmark = pytest.mark.slow

SYNCS = """
import os, sys
from pathlib import Path
from labkit.worlds.live.disk import RealDisk
assert sys.platform == "darwin" and not hasattr(os, "fdatasync")
disk = RealDisk(Path(sys.argv[1]) / "disk")
file = disk.create("current/a")
file.write(0, b"durable")
print("written", flush=True)
file.sync()
disk.sync_folder("current")
assert not disk.sync_whole()
"""

NO_FULL_SYNC = """
import errno, fcntl, os, sys
from labkit.worlds.live.host.posix import sync_data
def refuse(fd, command, argument=0):
    raise OSError(int(sys.argv[1]), "refused")
fcntl.fcntl = refuse
called = []
os.fsync = called.append
try:
    sync_data(1)
except OSError as error:
    print("raised", error.errno)
print(called)
"""

CLUSTER = """
import asyncio, os, resource, sys
from labkit.worlds.live.processes.cluster import LocalCluster
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 20_000))
async def main():
    async with LocalCluster(bookies=3) as cluster:
        for name in cluster.bookie_names:
            limits = resource.prlimit(cluster.ports_of(name)["pid"], resource.RLIMIT_NOFILE)
            assert limits == (10_240, 20_000), limits
        client = await cluster.connect()
        ledger = await client.create_ledger(3, 3, 2)
        for number in range(20):
            await ledger.add(b"%d" % number)
        await cluster.kill("b0")
        await cluster.restart("b0")
        await ledger.close()
        reader = await client.open_ledger_no_recovery(ledger.ledger_id)
        print(sys.platform, len([entry async for entry in reader.read()]))
asyncio.run(main())
"""


@pytest.mark.long
def test_nothing_uses_names_that_macos_lacks() -> None:
    command = ("-m", "mypy", "--platform", "darwin", "labkit", "--cache-dir", ".mypy_cache/macos")
    output_of(sys.executable, *command, folder=ROOT)


def test_a_sync_of_a_file_or_a_folder_reaches_the_drive(tmp_path: Path) -> None:
    called = tmp_path / "called"
    run = python_on("macos", "-c", SYNCS, str(tmp_path), FULL_SYNCS=str(called))
    assert run.returncode == 0, run.stderr
    # A new directory is durable only after its parent has been synced.
    made = [str(tmp_path), str(tmp_path / "disk")]
    synced = [str(tmp_path / "disk/current/a"), str(tmp_path / "disk/current")]
    assert called.read_text(encoding="utf-8").splitlines() == made + synced


@pytest.mark.parametrize(("number", "falls_back"), [(95, True), (22, True), (25, True), (5, False)])
def test_only_a_file_system_without_the_full_sync_gets_a_plain_one(
    number: int, falls_back: bool
) -> None:
    run = python_on("macos", "-c", NO_FULL_SYNC, str(number))
    assert run.stdout.split("\n")[:-1] == (["[1]"] if falls_back else [f"raised {number}", "[]"])


@pytest.mark.parametrize(
    "tests", ["tests/worlds/both/test_disk_contract.py", "tests/worlds/live/test_disk.py"]
)
def test_the_disk_keeps_its_contract(tests: str, tmp_path: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'base'}")
    run = python_on("macos", "-m", "pytest", *options, tests, FULL_SYNCS=str(tmp_path / "called"))
    assert run.returncode == 0, run.stdout
    assert (tmp_path / "called").exists()


@pytest.mark.java
def test_bookies_store_entries_are_killed_and_come_back(tmp_path: Path) -> None:
    called = tmp_path / "called"
    run = python_on("macos", "-c", CLUSTER, FULL_SYNCS=str(called))
    assert (run.stdout, run.returncode) == ("darwin 20\n", 0), run.stderr[-3000:]
    synced = called.read_text(encoding="utf-8").splitlines()
    assert any(path.endswith(".txn") for path in synced), "journals"


def test_doctor_finds_everything(tmp_path: Path) -> None:
    run = python_on("macos", "-m", "labkit", "doctor")
    assert "Memory" in run.stdout
    assert "Traceback" not in run.stderr
