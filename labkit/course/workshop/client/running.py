"""A learner's program as a process: its lines, its input, its end."""

import asyncio
import json
import os
import re
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.files import last_lines
from labkit.system.trace.recorder import Sink
from labkit.worlds.live.host.own_python import own_command, own_path
from labkit.worlds.live.host.posix import continue_process, stop_process
from labkit.worlds.live.net import LOOPBACK
from labkit.worlds.live.trace_stream import TraceStream

_LINE_LIMIT_S = 120.0
_MOST_LINES = 1_000_000
_NUMBER = re.compile("[0-9]{1,19}")


class ProgramProcess:
    """A process of `labkit client`.  Each call that waits raises `Refused`, with what the program
    printed last, where the program does not do in time what is waited for.
    """

    def __init__(self, name: str, process: Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._lines: list[str] = []
        self._more = asyncio.Event()
        self._stream: TraceStream | None = None
        self._reading: asyncio.Task[None] | None = None

    async def begin(self, sink: Sink) -> None:
        """Take its announcement, and its events from then on."""
        assert self._process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINE_LIMIT_S):
                line = await self._process.stdout.readline()
        if not line:
            raise Refused(f"Your program does not start: {self.error()}")
        try:
            port = json.loads(line)["trace_port"]
        except (ValueError, TypeError, KeyError):
            raise Refused(
                f"Your program {self.name} prints {line!r} while it is imported; labkit's line with"
                " the port must be the first."
            ) from None
        self._stream = TraceStream(LOOPBACK, port, sink)
        await self._stream.start()
        self._reading = asyncio.create_task(self._read())

    def numbers(self, word: str) -> list[int]:
        """The numbers that followed this word in its lines so far."""
        lines = [line.split() for line in self._lines]
        return [
            int(line[1])
            for line in lines
            if line[:1] == [word] and len(line) > 1 and _NUMBER.fullmatch(line[1])
        ]

    async def said_at_least(self, count: int, word: str) -> None:
        """Wait for that many lines that begin with this word."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINE_LIMIT_S):
                while len(self.numbers(word)) < count and self._is_reading():
                    self._more.clear()
                    await self._more.wait()
        if len(self.numbers(word)) < count:
            raise Refused(
                f"Your program {self.name} must print {count} lines `{word} ...`; it has printed"
                f" {len(self.numbers(word))} and {self._how()}."
            )

    async def give(self, lines: bytes) -> None:
        """Write to its standard input."""
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # Its end is noticed by those who wait for its lines.
            self._process.stdin.write(lines)
            await self._process.stdin.drain()

    async def close_input(self) -> None:
        """No more lines come."""
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.close()
            await self._process.stdin.wait_closed()

    async def ended(self) -> int:
        """Wait for its end; returns its exit code."""
        try:
            async with asyncio.timeout(_LINE_LIMIT_S):
                code = await self._process.wait()
                if self._reading is not None:
                    await self._reading
                if self._stream is not None:
                    await self._stream.drain()
                return code
        except TimeoutError:
            raise Refused(
                f"Your program {self.name} got all of its input, and after {_LINE_LIMIT_S:.0f} s it"
                f" has not ended. Its last line: {self._lines[-1:]}"
            ) from None

    async def stop(self) -> None:
        """SIGSTOP: it does nothing, and keeps its connections and its session."""
        try:
            await stop_process(self._process.pid)
        except ProcessLookupError:
            raise Refused(f"Your program {self.name} has ended: {self.error()}") from None

    def go_on(self) -> None:
        """SIGCONT."""
        continue_process(self._process.pid)

    async def kill(self) -> None:
        """SIGKILL, unless it has ended."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        if self._reading is not None:
            await self._reading

    def error(self) -> str:
        """What it printed last about its end."""
        said = last_lines(self._log, 1)
        return said[0].removeprefix(f"labkit: {self.name}: ") if said else "it says nothing"

    def _how(self) -> str:
        if self._is_reading():
            return f"still runs after {_LINE_LIMIT_S:.0f} s"
        return f"has ended: {self.error()}"

    def _is_reading(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                self._lines.append(line.decode(errors="replace"))
                self._more.set()
                if len(self._lines) == _MOST_LINES:
                    raise ValueError("too many lines")
        except ValueError:
            # Also of a line that is longer than any that this program has to print.
            self._process.kill()
        finally:
            self._more.set()


async def start_program(
    file: Path, name: str, folder: Path, zookeeper: str, arguments: Sequence[str], sink: Sink
) -> ProgramProcess:
    """Start `labkit client` with the learner's file; `sink` gets its events.

    It leads a process group: where this process dies while the program is stopped, the
    system continues and ends it.
    """
    command = own_command("labkit", "client", "--file", str(file), "--id", name)
    options = ("--zookeeper", zookeeper, "--trace-from-start", *arguments)
    log_path = folder / f"{name}.log"
    with log_path.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command,
            *options,
            stdin=PIPE,
            stdout=PIPE,
            stderr=log,
            process_group=0,
            env={**os.environ, **own_path()},
        )
    program = ProgramProcess(name, process, log_path)
    try:
        await program.begin(sink)
    except BaseException:
        await program.kill()
        raise
    return program


async def run_to_end(program: ProgramProcess) -> ProgramProcess:
    """Close its input and wait until it has ended well.  Raises `Refused` where it ends badly."""
    await program.close_input()
    if await program.ended() != 0:
        raise Refused(f"Your program {program.name} ended with {program.error()}")
    return program
