"""Networks that can be cut. Each bookie runs in its own network namespace, which is linked to ours.

This requires Linux, `ip` (iproute2), `unshare` and `nsenter`, and permission to create namespaces
(either as root or, if the kernel allows it, as any user). Everything is created inside a namespace
that belongs to this process, so no interface of the machine is touched, and nothing remains after
the process exits.

A cut drops every packet in both directions without notifying either side. To make a cut, each end
is configured with a wrong hardware address for the other end.
"""

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread

from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.ports import LOOPBACK

NEEDED = ("ip", "unshare", "nsenter")
PRIVATE = "LABKIT_CHAOS_NETWORK"
"""Set in the process that runs in its own network namespace."""
NOBODY = "02:00:00:00:00:01"
CLONE_NEWNET = 0x40000000
TIMEOUT_S = 20


def why_not() -> str:
    """Return the reason why networks cannot be cut on this machine, or an empty string if they
    can.
    """
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
    """Replace this process with the same program in a new network namespace."""
    command = [*unshare(), sys.executable, "-m", module, *words]
    os.execvpe(command[0], command, os.environ | {PRIVATE: "yes"})


def is_private() -> bool:
    """Return whether this process was started by `go_private`."""
    return PRIVATE in os.environ


def unshare() -> list[str]:
    """Return the command prefix that runs a program in a new network namespace."""
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]


class Cable:
    """One bookie's network and the virtual cable that connects it to ours."""

    def __init__(self, number: int) -> None:
        self._device = f"chaos{number}"
        self.host = f"10.77.{number}.2"
        self.gateway = f"10.77.{number}.1"
        """Our address on the cable, as seen from the bookie."""
        command = guarded(["unshare", "--net", "sleep", "infinity"])
        self._holder = subprocess.Popen(command, stdin=subprocess.PIPE)

    async def plug_in(self) -> None:
        """Create the cable and set the addresses of both ends."""
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
        """Return the command line that runs a command inside this network."""
        return ["nsenter", f"--net={self._namespace}", "--", *command]

    def cut(self) -> None:
        """Drop all packets from now on."""
        _ip(f"neigh replace {self.host} lladdr {NOBODY} nud permanent dev {self._device}")
        self._ip_inside(f"neigh replace {self.gateway} lladdr {NOBODY} nud permanent dev eth0")

    def repair(self) -> None:
        """Let packets through again."""
        _ip(f"neigh del {self.host} dev {self._device}")
        self._ip_inside(f"neigh del {self.gateway} dev eth0")

    def connect(self, port: int) -> socket.socket:
        """Connect to a loopback port inside this network; cuts do not affect the connection."""
        made: list[socket.socket] = []

        def visit() -> None:
            # A thread can enter a different namespace than the rest of its process, and a socket
            # stays in the namespace in which it was created.
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
        """Remove the network."""
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
    """Set up our side of the private network, namely loopback and routing between cables."""
    _ip("link set lo up")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


async def forward(address: Callable[[], str]) -> asyncio.Server:
    """Forward connections from every cable to an address on our loopback interface.

    Bookies connect to `gateway` on the port of the returned server.
    """

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = address().rpartition(":")
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
