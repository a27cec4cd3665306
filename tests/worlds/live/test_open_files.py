"""Tests the limits on connections and open files."""

import resource
import shutil
import socket
import sys
from pathlib import Path

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.host.exit_codes import EXIT_OK
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.open_files import limit_connections
from labkit.worlds.live.peers import PeerLimits
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.system.bookie.raw import RawClient, add, added
from tests.worlds.live.real_bookie import RealBookie


@pytest.mark.parametrize(
    ("limit", "connections"),
    [(5000, 1000), (1200, 1000), (700, 500), (resource.RLIM_INFINITY, 1000)],
)
def test_a_server_has_as_many_connections_as_open_files_are_left_for(
    monkeypatch: pytest.MonkeyPatch, limit: int, connections: int
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, sys.maxsize))
    assert limit_connections(PeerLimits(), others=200).max_connections == connections


def test_a_server_without_open_files_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300, 300))
    with pytest.raises(BKIncorrectParameterException, match=r"300 open files.* 295 .*ulimit -n"):
        limit_connections(PeerLimits(), others=295)


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
