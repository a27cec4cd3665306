"""Tests the guarantees of a session with a real ZooKeeper beyond the contract of its port."""

import asyncio
import sys
import threading
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE
from contextlib import suppress
from pathlib import Path

import pytest

from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.host.ports import free_port
from labkit.worlds.live.host.posix import continue_process, stop_process
from labkit.worlds.live.zookeeper import store as zookeeper_store
from labkit.worlds.live.zookeeper.secret import SECRET_VARIABLE
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.until import DEADLINE_S, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java]

LONG_SESSION_S = 30.0

OWNER = """
import asyncio, sys
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from labkit.system.metadata.location import MetadataLocation

async def own():
    store = ZooKeeperStore(MetadataLocation(sys.argv[1]), 1.0)
    await store.start()
    await store.create("/dead/me", b"", ephemeral=True)
    print("created", flush=True)
    await asyncio.sleep(600)

asyncio.run(own())
"""


def threads_of_kazoo() -> list[threading.Thread]:
    """Return all threads except the main thread and those in the event loop's pool."""
    return [
        thread
        for thread in threading.enumerate()
        if thread is not threading.main_thread() and not thread.name.startswith("asyncio")
    ]


async def test_start_without_a_server_says_where_it_looked() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(MetadataUnavailableError, match=f"ZooKeeper at {address} did not respond"):
        await ZooKeeperStore(MetadataLocation(address)).start(timeout_s=0.5)


async def test_start_on_the_port_of_another_kind_of_server_says_so() -> None:
    async def answer_as_a_bookie(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read(1)
        # ZooKeeper's client reads these as version, timeout, session and -1 for "no password".
        writer.write((20).to_bytes(4, "big") + b"\1" * 16 + b"\xff" * 4)

    async with await asyncio.start_server(answer_as_a_bookie, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        with pytest.raises(MetadataUnavailableError, match="another kind of server is listening"):
            await ZooKeeperStore(MetadataLocation(f"{host}:{port}")).start(timeout_s=0.5)


@pytest.mark.parametrize("address", ["127.0.0.1:no-port", "127.0.0.1:99999"])
async def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match="expected host:port"):
        ZooKeeperStore(MetadataLocation(address))


async def test_nothing_is_left_running_after_a_session(zookeeper: EmbeddedZooKeeper) -> None:
    before = threads_of_kazoo()
    async with ZooKeeperStore(zookeeper.location) as store:
        await store.exists("/", lambda: None)
        assert len(threads_of_kazoo()) > len(before)
    assert threads_of_kazoo() == before


async def test_nothing_is_left_running_after_a_start_that_failed_or_was_cancelled() -> None:
    before = threads_of_kazoo()
    nobody = MetadataLocation(f"127.0.0.1:{free_port()}")
    with pytest.raises(MetadataUnavailableError):
        await ZooKeeperStore(nobody).start(timeout_s=0.2)
    starting = asyncio.create_task(ZooKeeperStore(nobody).start())
    await until(lambda: len(threads_of_kazoo()) > len(before))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert threads_of_kazoo() == before


async def test_server_that_falls_silent_does_not_hang_its_client(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_store, "_RESPONSE_TIMEOUT_S", 0.3)
    await stop_process(zookeeper.pid)
    try:
        async with asyncio.timeout(DEADLINE_S):
            with pytest.raises(MetadataUnavailableError, match=r"did not respond within 0\.3 s"):
                await store.get("/")
    finally:
        continue_process(zookeeper.pid)


async def test_connection_that_breaks_while_the_secret_is_proved_is_made_again(
    zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 0

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay a connection, but break the first one when the client starts to authenticate."""
        nonlocal count
        count += 1
        frames_left = 1 if count == 1 else 1_000_000
        there, back = await asyncio.open_connection("127.0.0.1", zookeeper.port)

        async def answers() -> None:
            while data := await there.read(65536):
                writer.write(data)

        answering = asyncio.create_task(answers())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while frames_left:
                size = await reader.readexactly(4)
                back.write(size + await reader.readexactly(int.from_bytes(size)))
                frames_left -= 1
            await reader.readexactly(4)
        answering.cancel()
        back.close()
        writer.close()

    monkeypatch.setenv(SECRET_VARIABLE, zookeeper.secret)
    async with await asyncio.start_server(relay, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with ZooKeeperStore(MetadataLocation(f"127.0.0.1:{port}")) as store:
            assert await store.children("/")
            assert count > 1


async def test_ephemeral_node_of_a_killed_process_goes_and_its_watch_is_reported(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore
) -> None:
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", OWNER, zookeeper.address, stdout=PIPE
    )
    assert owner.stdout is not None
    await owner.stdout.readline()
    gone = asyncio.Event()
    assert await store.exists("/dead/me", gone.set)
    owner.kill()
    await owner.wait()
    async with asyncio.timeout(DEADLINE_S):
        await gone.wait()
    assert not await store.exists("/dead/me")


async def test_after_a_restart_of_the_server_watches_and_session_are_as_before(
    tmp_path: Path,
) -> None:
    async with (
        EmbeddedZooKeeper(tmp_path) as server,
        ZooKeeperStore(server.location, LONG_SESSION_S) as store,
    ):
        renewed, changed = asyncio.Event(), asyncio.Event()
        store.on_new_session(renewed.set)
        await store.create("/kept/me", b"", ephemeral=True)
        await store.children("/kept", changed.set)
        await server.stop()
        await server.start()
        async with asyncio.timeout(DEADLINE_S):
            await changed.wait()
        assert await store.children("/kept") == ["me"]
        assert not renewed.is_set()


async def test_server_that_lost_the_session_is_found_again(tmp_path: Path) -> None:
    first = EmbeddedZooKeeper(tmp_path / "first")
    await first.start()
    async with ZooKeeperStore(first.location) as store:
        renewed = asyncio.Event()
        store.on_new_session(renewed.set)
        await first.stop()
        second = EmbeddedZooKeeper(tmp_path / "second", first.port)
        second.secret = first.secret
        async with second:
            # A server that has processed fewer transactions than the client has seen would reject
            # the client.
            async with ZooKeeperStore(second.location) as other:
                for number in range(5):
                    await other.create(f"/done/{number}", b"")
            async with asyncio.timeout(DEADLINE_S):
                await renewed.wait()
            assert await store.create("/me", b"", ephemeral=True) == "/me"
