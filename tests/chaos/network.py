"""Networks to cut: each bookie in a separate network namespace, a cable to ours.

Needs Linux, `ip` (iproute2), `unshare` and `nsenter`, and the right to make namespaces: root's, or
anybody's where the kernel gives it.  Everything is made inside a namespace of this process alone,
so it touches no interface of the machine and is gone with the process.

A cut loses every packet in both directions and tells nobody: each end believes the other to have an
address that nobody has.
"""

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.net import LOOPBACK

NEEDED = ("ip", "unshare", "nsenter")
PRIVATE = "LABKIT_CHAOS_NETWORK"
"""Set in the process that has a separate network namespace."""
NOBODY = "02:00:00:00:00:01"
CLONE_NEWNET = 0x40000000
TIMEOUT_S = 20


def why_not() -> str:
    """Why networks cannot be cut here; empty if they can."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not on the PATH"
    cable = "ip link add labkit0 type veth peer name labkit1"
    tried = subprocess.run(
        [*unshare(), "sh", "-c", cable],
        check=False,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    return tried.stderr.strip() if tried.returncode else ""


def go_private(module: str, words: list[str]) -> None:
    """Become the same program in a separate network namespace."""
    command = [*unshare(), sys.executable, "-m", module, *words]
    os.execvpe(command[0], command, os.environ | {PRIVATE: "yes"})


def is_private() -> bool:
    """Whether `go_private` was here."""
    return PRIVATE in os.environ


def unshare() -> list[str]:
    """The command line that begins a network namespace."""
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


class Cable:
    """One bookie's network, and the cable between it and ours."""

    def __init__(self, number: int) -> None:
        self._device = f"chaos{number}"
        self.host = f"10.77.{number}.2"
        self.gateway = f"10.77.{number}.1"
        """Where we are, seen from there."""
        command = guarded(["unshare", "--net", "sleep", "infinity"])
        self._holder = subprocess.Popen(command, stdin=subprocess.PIPE)

    async def plug_in(self) -> None:
        """Make the cable and the addresses of both ends."""
        ours = os.readlink("/proc/self/ns/net")
        async with asyncio.timeout(TIMEOUT_S):
            while os.readlink(self._namespace) == ours:  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.01)
        _ip(f"link add {self._device} type veth peer name eth0 netns {self._holder.pid}")
        _ip(f"addr add {self.gateway}/30 dev {self._device}")
        _ip(f"link set {self._device} up")
        for words in (
            "link set lo up",
            f"addr add {self.host}/30 dev eth0",
            "link set eth0 up",
            f"route add default via {self.gateway}",
        ):
            self._ip_inside(words)

    def inside(self, command: list[str]) -> list[str]:
        """The command line that runs a command in this network."""
        return ["nsenter", f"--net={self._namespace}", "--", *command]

    def cut(self) -> None:
        """From now on all packets are lost."""
        _ip(f"neigh replace {self.host} lladdr {NOBODY} nud permanent dev {self._device}")
        self._ip_inside(f"neigh replace {self.gateway} lladdr {NOBODY} nud permanent dev eth0")

    def repair(self) -> None:
        """From now on packets arrive."""
        _ip(f"neigh del {self.host} dev {self._device}")
        self._ip_inside(f"neigh del {self.gateway} dev eth0")

    def connect(self, port: int) -> socket.socket:
        """A connection to the loopback address over there, which no cut concerns."""
        made: list[socket.socket] = []

        def visit() -> None:
            # A thread may be in another namespace than its process; a socket stays where it was
            # made.
            libc = ctypes.CDLL(None, use_errno=True)
            with Path(self._namespace).open("rb") as namespace:
                if libc.setns(namespace.fileno(), CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            made.append(socket.create_connection((LOOPBACK, port), timeout=TIMEOUT_S))

        thread = Thread(target=visit)
        thread.start()
        thread.join()
        made[0].setblocking(False)
        return made[0]

    def unplug(self) -> None:
        """Give the network up."""
        assert self._holder.stdin is not None
        self._holder.stdin.close()
        self._holder.kill()
        self._holder.wait()

    @property
    def _namespace(self) -> str:
        return f"/proc/{self._holder.pid}/ns/net"

    def _ip_inside(self, words: str) -> None:
        subprocess.run(self.inside(["ip", *words.split()]), check=True, timeout=TIMEOUT_S)


def _ip(words: str) -> None:
    subprocess.run(["ip", *words.split()], check=True, timeout=TIMEOUT_S)


def open_up() -> None:
    """Make our own side of the private network: loopback, and a way from cable to cable."""
    _ip("link set lo up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


async def forward(address: str) -> asyncio.Server:
    """Let every cable's other end reach a port of our loopback address, such as ZooKeeper's: at
    `gateway` and the port of the server returned.
    """
    host, _, port = address.rpartition(":")

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pump(reader, back), _pump(there, writer))

    return await asyncio.start_server(accept, "0.0.0.0", 0)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
