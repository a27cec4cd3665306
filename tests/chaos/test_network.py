"""A cut network drops all packets silently, and delivers packets again once it is repaired."""

import asyncio
import subprocess
import sys
from asyncio.subprocess import PIPE

import pytest

from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.ports import LOOPBACK
from tests.chaos import network
from tests.chaos.network import Cable

GREETER = """
import socket
with socket.create_server(("0.0.0.0", 0)) as server:
    print(server.getsockname()[1], flush=True)
    while True:
        connection, _ = server.accept()
        connection.sendall(b"hello")
        connection.close()
"""
SILENCE_S = 0.5
DEADLINE_S = 20.0


async def greeting(host: str, port: int, timeout_s: float) -> bytes:
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port)
        heard = await reader.read()
        writer.close()
        return heard


async def cut_and_mend() -> None:
    network.open_up()
    cable = Cable(1)
    await cable.plug_in()
    command = guarded(cable.inside([sys.executable, "-c", GREETER]))
    greeter = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert greeter.stdout is not None
    port = int(await greeter.stdout.readline())
    assert await greeting(cable.host, port, DEADLINE_S) == b"hello"
    cable.cut()
    with pytest.raises(TimeoutError):
        await greeting(cable.host, port, SILENCE_S)
    # Connections that are opened from inside the namespace do not use the cable.
    reader, _ = await asyncio.open_connection(sock=cable.connect(port))
    assert await reader.read() == b"hello"
    cable.repair()
    assert await greeting(cable.host, port, DEADLINE_S) == b"hello"
    with pytest.raises(OSError):  # noqa: PT011 - the greeter listens there, not here
        await greeting(LOOPBACK, port, DEADLINE_S)
    greeter.kill()
    await greeter.wait()
    cable.unplug()


@pytest.mark.slow
def test_a_cut_loses_every_packet_until_it_is_repaired() -> None:
    reason = network.why_not()
    if reason:
        pytest.skip(f"networks cannot be cut here: {reason}")
    script = (
        "import asyncio; from tests.chaos.test_network import cut_and_mend;"
        " asyncio.run(cut_and_mend())"
    )
    command = [*network.unshare(), sys.executable, "-c", script]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
