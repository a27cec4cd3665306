"""A labkit server as a child process that can be started, paused, killed and shut down.

The process announces its ports as JSON in its first line of output. Its standard input is a pipe,
through which its guard notices when this process exits.
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
from labkit.worlds.live.host.posix import stop_process
from labkit.worlds.live.host.private import UMASK, open_log
from labkit.worlds.live.trace_stream import TraceStream

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0
_KILL_TIMEOUT_S = 5.0
_POLL_INTERVAL_S = 0.01
_MAX_QUOTED = 200
_READ_SIZE = 64 * 1024


class NodeNotStartedError(LabkitError):
    """A server's process exited, or did not announce its ports in time."""


class NodeStateError(LabkitError):
    """The operation is not possible in the server's current state."""


@dataclass(slots=True)
class NodeProcess:
    """A server, together with its current or last process.

    kind: the labkit command that runs it, such as "bookie".
    environment: variables added to this process's environment.
    is_temporary: whether `folder` is deleted if the cluster fails to start.
    ports: the last announcement of the process: its id and its ports, by name.
    """

    kind: str
    name: str
    folder: Path
    recorder: Recorder
    environment: Mapping[str, str] = field(default_factory=dict)
    is_temporary: bool = False
    process: Process | None = None
    is_paused: bool = False
    ports: dict[str, int] = field(default_factory=dict)
    stream: TraceStream | None = None
    _watching: asyncio.Task[None] | None = None
    _is_stopping: bool = False

    @property
    def is_up(self) -> bool:
        """Whether the process is alive, even if paused."""
        return self.process is not None and self.process.returncode is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process, or None while one is up and before the first start."""
        return None if self.process is None else self.process.returncode

    async def start(self, command: Sequence[str]) -> None:
        """Run the command, and wait until the server announces its ports.

        If the server fails to start, raises `NodeNotStartedError`.
        """
        await self._finish_watching()
        self._is_stopping = False
        log_path = self.folder / f"{self.kind}.log"
        with open_log(log_path) as log:
            log_start = log.tell()
            self.process = await asyncio.create_subprocess_exec(
                *guarded(list(command)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=log,
                umask=UMASK,
                env={**os.environ, **self.environment},
            )
        try:
            self.ports = await self._read_announcement(self.process, log_path, log_start)
        except BaseException:
            await self.stop()
            raise
        self.recorder.record("node.started")
        self._watching = asyncio.create_task(self._watch(self.process))

    async def _read_announcement(
        self, process: Process, log_path: Path, log_start: int
    ) -> dict[str, int]:
        assert process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(_START_TIMEOUT_S):
                line = await process.stdout.readline()
                if not line:
                    # The process is about to exit, but may still be writing the reason to its log.
                    await process.wait()
        if line:
            with suppress(ValueError):
                ports = json.loads(line)
                if isinstance(ports, dict) and "port" in ports:
                    return ports
            problem = f"it printed {line[:_MAX_QUOTED]!r} instead of its ports"
        else:
            code = process.returncode
            ended = "" if code is None else f"{describe_exit(code)} and "
            problem = self._failure_reason(log_path, log_start) or f"it {ended}printed nothing"
        raise NodeNotStartedError(f"{self.name} did not start: {problem}")

    def _failure_reason(self, log_path: Path, log_start: int) -> str:
        """Return the error that the process printed before exiting, or "" if it printed none.

        If the last line of the log is not one of labkit's errors, add the log's path.
        """
        lines = log_path.read_bytes()[log_start:].decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "")
        reason = last.removeprefix(f"labkit: {self.name}: ")
        if reason != last or not last:
            return reason
        where = "deleted with its temporary folder; choose a folder to keep it"
        return f"{last} (its log is {where if self.is_temporary else log_path})"

    async def _watch(self, process: Process) -> None:
        """Wait until the process exits, and record its end unless `stop` has caused it."""
        assert process.stdout is not None
        # A process that prints more, such as a learner's bookie, would wait if nobody read it.
        while await process.stdout.read(_READ_SIZE):
            """Discard it."""
        await process.wait()
        self.is_paused = False
        if self.stream is not None:
            stream, self.stream = self.stream, None
            await stream.drain()
        if not self._is_stopping:
            self.recorder.record("node.killed")

    async def _finish_watching(self) -> None:
        if self._watching is not None:
            await self._watching

    async def kill(self) -> None:
        """Kill the process with SIGKILL. Raises `NodeStateError` if the node is down."""
        self._running("killed").kill()
        await self._finish_watching()

    async def shut_down(self) -> None:
        """Send SIGTERM and wait for the process to exit. A paused node is resumed first.

        Raises `NodeStateError` if the node is down.
        """
        process = self._running("shut down")
        if self.is_paused:
            self.resume()
        process.terminate()
        await self._finish_watching()

    async def pause(self) -> None:
        """Suspend the process with SIGSTOP. Raises `NodeStateError` if the node is down."""
        try:
            await stop_process(self._running("paused").pid)
        except ProcessLookupError:
            raise self._is_down("paused") from None
        self.is_paused = True
        self.recorder.record("node.paused")

    def resume(self) -> None:
        """Send SIGCONT. Raises `NodeStateError` if the process is not paused."""
        if not self.is_paused:
            raise NodeStateError(f"{self.name} is not paused")
        self._running("resumed").send_signal(signal.SIGCONT)
        self.is_paused = False
        self.recorder.record("node.resumed")

    async def stop(self) -> None:
        """Send SIGTERM, and kill the process if it does not exit in time."""
        process = self.process
        if process is not None and process.returncode is None:
            self._is_stopping = True
            if self.is_paused:
                process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                async with asyncio.timeout(_STOP_TIMEOUT_S):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await self._finish_watching()

    def _running(self, verb: str) -> Process:
        """Return the process. Raises `NodeStateError` if the node is down."""
        if self.process is None or self.process.returncode is not None:
            raise self._is_down(verb)
        return self.process

    def _is_down(self, verb: str) -> NodeStateError:
        return NodeStateError(f"{self.name} is down and cannot be {verb}; restart it first")


def kill_and_wait(pid: int) -> None:
    """Kill a child process and wait for it, without an event loop, while this process exits.

    If possible, let asyncio reap the child. On macOS, this requires Python 3.13.
    """
    deadline = time.monotonic() + _KILL_TIMEOUT_S
    with suppress(ChildProcessError, ProcessLookupError):  # The child has exited and been reaped.
        if not _has_ended(pid):
            os.kill(pid, signal.SIGKILL)
        while not _has_ended(pid):
            if time.monotonic() > deadline:
                return
            time.sleep(_POLL_INTERVAL_S)


def _has_ended(pid: int) -> bool:
    """Return whether the child has exited. Raises `ChildProcessError` if it was reaped."""
    if hasattr(os, "waitid"):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
    return os.waitpid(pid, os.WNOHANG)[0] == pid
