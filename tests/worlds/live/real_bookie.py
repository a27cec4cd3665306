"""A bookie in a separate process (`labkit bookie --conf FILE`), controlled by a test."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Self

from labkit.worlds.live.host.guard import guarded
from tests.until import DEADLINE_S


class RealBookie:
    """A bookie with the directories `journal` and `ledgers` in `folder`, unless `keys` specifies
    others.

    `keys` are entries of its configuration file. `limits` is a command prefix that sets resource
    limits.
    """

    def __init__(
        self, folder: Path, zookeeper: str, keys: dict[str, object], limits: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        self._limits = limits
        self._conf = folder / "bk_server.conf"
        lines = {
            "bookieId": folder.name,
            "zkServers": zookeeper,
            "journalDirectories": folder / "journal",
            "ledgerDirectories": folder / "ledgers",
            "journalPreAllocSizeMB": 1,
            **keys,
        }
        folder.mkdir(exist_ok=True)
        self._conf.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._process: Process | None = None
        self.port = self.trace_port = self.pid = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.kill()

    async def start(self) -> None:
        """Start the bookie and wait until it is serving. If it exits, fail with its output."""
        await self.launch()
        assert self._process is not None
        assert self._process.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            line = await self._process.stdout.readline()
        assert line, await self.last_words()
        ready = json.loads(line)
        self.port, self.trace_port, self.pid = ready["port"], ready["trace_port"], ready["pid"]

    async def launch(self) -> None:
        """Start the process without waiting for it."""
        command = [*self._limits, sys.executable, "-m", "labkit", "bookie", "--conf", self._conf]
        self._process = await asyncio.create_subprocess_exec(
            *guarded(list(map(str, command))), stdin=PIPE, stdout=PIPE, stderr=PIPE
        )

    async def kill(self) -> None:
        """Send SIGKILL if the bookie is still running."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def stop(self) -> tuple[int, str]:
        """Send SIGTERM, then return the exit status and the output on standard error."""
        assert self._process is not None
        self._process.terminate()
        return await self.last_words()

    async def last_words(self) -> tuple[int, str]:
        """Wait until the bookie exits; return its exit status and standard error output."""
        assert self._process is not None
        assert self._process.stderr is not None
        async with asyncio.timeout(DEADLINE_S):
            said = await self._process.stderr.read()
            return await self._process.wait(), said.decode()
