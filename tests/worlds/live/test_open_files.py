"""Trace listeners do not use up the open files that a bookie needs."""

import shutil
import socket
from pathlib import Path

import pytest

from labkit.worlds.live.host.exit_codes import EXIT_OK
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.system.bookie.raw import RawClient, add, added
from tests.worlds.live.real_bookie import RealBookie


@pytest.mark.asyncio(loop_scope="session")
async def test_listeners_to_the_trace_take_no_file_that_the_bookie_needs(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("prlimit is not on the PATH")
    keys: dict[str, object] = {"openFileLimit": 20, "flushInterval": 50}
    limits = ("prlimit", "--nofile=300")
    bookie = RealBookie(tmp_path / "listened-to", zookeeper.address, keys, limits)
    listeners: list[socket.socket] = []
    async with bookie, RawClient(bookie.port) as client:
        try:
            for _ in range(400):
                listeners.append(socket.create_connection((LOOPBACK, bookie.trace_port), 5))
                assert await client.ask(add(len(listeners), 0, b"x")) == added(len(listeners), 0)
        finally:
            for listener in listeners:
                listener.close()
        assert await bookie.stop() == (EXIT_OK, "")
