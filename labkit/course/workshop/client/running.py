"""Controls a learner's program that runs as a process: writes its input, reads its output and waits
for its exit.
"""

import asyncio
import json
import os
import re
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from labkit.course.checking.refused import Refused
from labkit.course.workshop.files import last_lines
from labkit.system.trace.recorder import Sink
from labkit.worlds.live.host.own_python import own_command, own_path
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.host.posix import continue_process, stop_process
from labkit.worlds.live.trace_stream import TraceStream

_LINE_LIMIT_S = 120.0
_MAX_LINES = 1_000_000
_NUMBER = re.compile("[0-9]{1,19}")


class ProgramProcess:
    """A process of `labkit client`.

    If the program does not reach the expected state in time, each method that waits for it raises
    `Refused`, with the program's last output.
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
        assert self._process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINE_LIMIT_S):
                line = await self._process.stdout.readline()
        if not line:
            raise Refused(f"Your program did not start: {self.error()}")
        try:
            port = json.loads(line)["trace_port"]
        except (ValueError, TypeError, KeyError):
            raise Refused(
                f"Your program {self.name} prints {line!r} while it is imported; the first line of"
                " the output must be labkit's line with the port."
            ) from None
        with suppress(ConnectionError):  # A short program may already have exited.
            stream = TraceStream(LOOPBACK, port, sink)
            await stream.start()
            self._stream = stream
        self._reading = asyncio.create_task(self._read())

    def numbers(self, word: str) -> list[int]:
        """For each printed line that starts with this word, return the number that follows the
        word.
        """
        lines = [line.split() for line in self._lines]
        return [
            int(line[1])
            for line in lines
            if line[:1] == [word] and len(line) > 1 and _NUMBER.fullmatch(line[1])
        ]

    async def wait_for_lines(self, count: int, word: str) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINE_LIMIT_S):
                while len(self.numbers(word)) < count and self._is_reading():
                    self._more.clear()
                    await self._more.wait()
        if len(self.numbers(word)) < count:
            raise Refused(
                f"Your program {self.name} must print {count} lines `{word} ...`; it printed"
                f" {len(self.numbers(word))} and {self._how()}."
            )

    async def give(self, lines: bytes) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):  # Whoever waits for output lines will notice the exit.
            self._process.stdin.write(lines)
            await self._process.stdin.drain()

    async def close_input(self) -> None:
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.close()
            await self._process.stdin.wait_closed()

    async def ended(self) -> int:
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
                f"Your program {self.name} did not end within {_LINE_LIMIT_S:.0f} s after it had"
                f" received all of its input. Its last line: {self._lines[-1:]}"
            ) from None

    async def stop(self) -> None:
        """Send SIGSTOP: the process stops, but keeps its connections and its session."""
        try:
            await stop_process(self._process.pid)
        except ProcessLookupError:
            raise Refused(f"Your program {self.name} has ended: {self.error()}") from None

    def resume(self) -> None:
        continue_process(self._process.pid)

    async def kill(self) -> None:
        """Send SIGKILL unless the process has exited."""
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()
        if self._reading is not None:
            await self._reading

    def error(self) -> str:
        """Return the last line of the process's log."""
        lines = last_lines(self._log, 1)
        return lines[0].removeprefix(f"labkit: {self.name}: ") if lines else "no error message"

    def _how(self) -> str:
        if self._is_reading():
            return f"is still running after {_LINE_LIMIT_S:.0f} s"
        return f"has ended: {self.error()}"

    def _is_reading(self) -> bool:
        return self._reading is not None and not self._reading.done()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                self._lines.append(line.decode(errors="replace"))
                self._more.set()
                if len(self._lines) == _MAX_LINES:
                    raise ValueError("too many lines")
        except ValueError:
            # `readline` also raises ValueError for a line longer than its limit.
            self._process.kill()
        finally:
            self._more.set()


async def start_program(
    file: Path, name: str, folder: Path, zookeeper: str, arguments: Sequence[str], sink: Sink
) -> ProgramProcess:
    """Start `labkit client` with the learner's file; `sink` receives its events.

    The program is the leader of its own process group. If this process dies while the program is
    stopped, the operating system therefore resumes and terminates the program.
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
    """Close the program's input and wait until it has succeeded. Raises `Refused` if it fails."""
    await program.close_input()
    if await program.ended() != 0:
        raise Refused(f"Your program {program.name} ended with {program.error()}")
    return program
