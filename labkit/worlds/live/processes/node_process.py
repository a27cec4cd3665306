"""A labkit server as a process on this machine: it can be started, paused, killed and ended.

Its first line of output names its ports, as JSON; its standard input ties its life to ours.
"""

import asyncio
import json
import os
import signal
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from labkit.system.model.errors import LabkitError
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.host.exit_codes import describe_exit
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.posix import continue_process, stop_process
from labkit.worlds.live.host.private import UMASK, open_log
from labkit.worlds.live.trace_stream import TraceStream

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 5.0
_POLL_INTERVAL_S = 0.01
_MAX_QUOTED = 200


class NodeNotStartedError(LabkitError):
    """A server's process ended, or printed nothing in time, instead of serving."""


class NodeStateError(LabkitError):
    """The request does not fit the server's state."""


@dataclass(slots=True)
class NodeProcess:
    """A server, up or down; `kind` is labkit's verb for it, `ports` the ports it announced last.

    `environment` is added to this process's environment; with `is_temporary` its folder does not
    outlive a start that fails.
    """

    kind: str
    name: str
    folder: Path
    recorder: Recorder
    environment: Mapping[str, str] = field(default_factory=dict)
    is_temporary: bool = False
    process: Process | None = None
    paused: bool = False
    ports: dict[str, int] = field(default_factory=dict)
    stream: TraceStream | None = None
    watch: asyncio.Task[None] | None = None
    exit_code: int | None = None
    """Of the process that ended last; None while one is up, and before the first."""

    @property
    def is_up(self) -> bool:
        """Whether its process is alive, running or paused."""
        return self.process is not None and self.process.returncode is None

    def _running(self, verb: str) -> Process:
        """Its process.  Raises `NodeStateError`, that the node cannot be `verb`, if it is down."""
        process = self.process
        if process is None or process.returncode is not None:
            raise NodeStateError(f"{self.name} is down and cannot be {verb}; restart it first")
        return process

    async def start(self, command: Sequence[str]) -> None:
        """Run the command; returns when the server serves.  Raises `NodeNotStartedError`."""
        self.exit_code = None
        log_path = self.folder / f"{self.kind}.log"
        with open_log(log_path) as log:
            begin = log.tell()
            self.process = await asyncio.create_subprocess_exec(
                *guarded(list(command)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                umask=UMASK,
                env={**os.environ, **self.environment},
            )
        assert self.process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_S):
                line = await self.process.stdout.readline()
                if not line:
                    # The process is about to end, and may still be writing the reason.
                    await self.process.wait()
        if not line:
            silent = "it says nothing"
            if self.is_up:
                self.process.kill()
                await self.process.wait()
            else:
                silent = f"it {describe_exit(await self.process.wait())} and says nothing"
            raise NodeNotStartedError(
                f"{self.name} did not start: {self._failure_reason(log_path, begin) or silent}"
            )
        self.ports = await self._parse_announcement(line)

    async def _parse_announcement(self, line: bytes) -> dict[str, int]:
        """The ports in a server's first line; kills a program that prints anything else there."""
        ports = None
        with suppress(ValueError):
            ports = json.loads(line)
        if not isinstance(ports, dict) or "port" not in ports:
            await self.stop()
            raise NodeNotStartedError(
                f"{self.name} did not start: it printed {line[:_MAX_QUOTED]!r}, not its ports"
            )
        return ports

    def _failure_reason(self, log_path: Path, begin: int) -> str:
        """The reason that the process printed before it ended; without one the end of its log, and
        the log's path.  Empty if it printed nothing.
        """
        lines = log_path.read_bytes()[begin:].decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        reason = last.removeprefix(f"labkit: {self.name}: ")
        if reason != last or not last:
            return reason
        where = "removed with its folder; name a folder to keep it"
        return f"{last} (its log is {where if self.is_temporary else log_path})"

    def watch_end(self) -> None:
        """Record the end of the process, killed or ended by itself."""
        self.watch = asyncio.create_task(self._record_end())

    async def _record_end(self) -> None:
        assert self.process is not None
        await self.process.wait()
        await self.mark_ended()
        self.recorder.record("node.killed")

    async def kill(self) -> None:
        """SIGKILL.  Raises `NodeStateError` if it is down."""
        self._running("killed").kill()
        await self._ended()

    async def shut_down(self) -> None:
        """SIGTERM, and wait; a paused node goes on first.  Raises `NodeStateError` if it is
        down.
        """
        process = self._running("shut down")
        if self.paused:
            self.resume()
        process.terminate()
        await self._ended()

    async def _ended(self) -> None:
        assert self.watch is not None
        await self.watch

    async def pause(self) -> None:
        """SIGSTOP, and wait until it has stopped.  Raises `NodeStateError` if it is down."""
        await stop_process(self._running("paused").pid)
        self.paused = True
        self.recorder.record("node.paused")

    def resume(self) -> None:
        """SIGCONT.  Raises `NodeStateError` if it is not paused."""
        if not self.paused:
            raise NodeStateError(f"{self.name} is not paused")
        continue_process(self._running("resumed").pid)
        self.paused = False
        self.recorder.record("node.resumed")

    async def stop(self) -> None:
        """Send SIGTERM, and kill the process if it takes too long to end."""
        process = self.process
        if self.watch is not None:
            self.watch.cancel()
        if process is not None and process.returncode is None:
            if self.paused:
                continue_process(process.pid)
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await self.mark_ended()

    async def mark_ended(self) -> None:
        """Take the last rows of its trace, after the process has ended."""
        if self.process is not None:
            self.exit_code = self.process.returncode
        self.process = None
        self.paused = False
        if self.stream is not None:
            stream, self.stream = self.stream, None
            await stream.drain()


def kill_and_wait(pid: int) -> None:
    """Kill a child at once, without an event loop, when this process exits.

    Where possible the child's end is observed without reaping it, which is left to asyncio: macOS
    cannot do that before Python 3.13.
    """
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    with suppress(ChildProcessError):  # The child has ended, and was reaped.
        if not _has_ended(pid):
            os.kill(pid, signal.SIGKILL)
        while not _has_ended(pid):
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_INTERVAL_S)


def _has_ended(pid: int) -> bool:
    """Raises `ChildProcessError` if the child was reaped."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return os.waitpid(pid, os.WNOHANG)[0] == pid
