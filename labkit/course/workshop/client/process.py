"""Runs the learner's program in a real process.

    seq 1000 | labkit client --file myclient.py --zookeeper HOST:PORT write
    labkit client --file myclient.py --zookeeper HOST:PORT take 5

`write` adds each line of its input as an entry. It prints `ledger 5`, then `confirmed 0` and so on
for each entry, and finally `closed`. `take` recovers the given ledger and prints the entries in it.
"""

import asyncio
import json
import os
import sys
import threading
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from labkit.course.checking.refused import Refused, words_of
from labkit.course.workshop.client.program import Program, Sizes
from labkit.course.workshop.files import NotLoadedError, error_with_line, load
from labkit.course.workshop.learner import Learner
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.location import parse_location
from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.model.ledger import check_quorums
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.trace_stream import TraceServer
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

PATIENT = ClientConfig(request_timeout_s=30.0)
"""Longer than labkit's default: on a busy machine, a working bookie may be slow, and requests to a
killed bookie fail at once anyway.
"""
_READ_SIZE = 65536
_LINES_WAITING = 1000
Say = Callable[[str], None]
Use = Callable[[Program], Awaitable[None]]


class ProgramError(LabkitError):
    """Raised if the learner's program failed; the message contains the exception and, if known, the
    line that raised it.
    """


class InputError(ProgramError):
    """Raised if the input, whose lines should be written as entries, cannot be read."""


async def run_command(arguments: Namespace, say: Say) -> None:
    """Run `labkit client`: load the learner's file and run its program; return when the program has
    succeeded.

    SIGTERM and SIGINT cancel the program. Raises `ProgramError`, `BKIncorrectParameterException`,
    and another `LabkitError` if the cluster cannot be reached.
    """
    location = parse_location(arguments.zookeeper)
    use = _use_of(arguments, say)
    cancel_on_stop_signal()
    try:
        learner = load(arguments.file, seeds=0)
    except (NotLoadedError, NotImplementedError) as error:
        raise ProgramError(f"{arguments.file}: {error}") from None
    async with ZooKeeperStore(location) as store:
        await _run(arguments, learner, store, use, say)


def _use_of(arguments: Namespace, say: Say) -> Use:
    """Return the function that does with the program what the command line says.

    Raises `ProgramError` if standard input is closed.
    """
    if arguments.use == "take":
        return partial(_take, ledger_id=arguments.ledger, say=say)
    if arguments.window < 1:
        raise BKIncorrectParameterException(f"--window must be at least 1, got {arguments.window}")
    sizes = _sizes(arguments.sizes)
    if sys.stdin is None:
        # Without this check, the next file or connection to be opened would get file descriptor 0.
        raise ProgramError("standard input is closed: pass the lines to write")
    return partial(_write, sizes=sizes, window=arguments.window, say=say)


def _sizes(text: str) -> Sizes:
    try:
        ensemble_size, write_quorum, ack_quorum = map(int, text.split(","))
    except ValueError:
        raise BKIncorrectParameterException(
            f"--sizes must be three numbers E,Qw,Qa, got {text}"
        ) from None
    check_quorums(ensemble_size, write_quorum, ack_quorum)
    return ensemble_size, write_quorum, ack_quorum


async def _write(program: Program, sizes: Sizes, window: int, say: Say) -> None:
    """Write the lines of standard input to a new ledger."""
    await program.write(
        sizes,
        lines_of_input(),
        window,
        lambda ledger_id: say(f"ledger {ledger_id}"),
        lambda entry_id: say(f"confirmed {entry_id}"),
    )
    say("closed")


async def _take(program: Program, ledger_id: int, say: Say) -> None:
    """Take over a ledger, and print its entries."""
    for entry in await program.take_over(ledger_id):
        say(f"entry {entry.entry_id} {entry.payload.decode(errors='backslashreplace')}")
    say("closed")


async def _run(
    arguments: Namespace, learner: Learner, store: ZooKeeperStore, use: Use, say: Say
) -> None:
    recorder = Recorder(arguments.id, trace_clock_us)
    if arguments.trace_from_start:
        port = await TraceServer(recorder, from_start=True).start()
        say(json.dumps({"pid": os.getpid(), "trace_port": port}))
    client = new_client(store, recorder, config=PATIENT)
    running = asyncio.current_task()
    assert running is not None

    def failed(error: BaseException) -> None:
        learner.error = learner.error or error
        running.cancel()

    try:
        await use(Program(learner, client.context, failed))
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - of the learner's code
        raise _reported_error(learner, learner.error or error) from None
    finally:
        client.close()


def _reported_error(learner: Learner, error: BaseException) -> BaseException:
    """Return the exception that should be reported.

    A stop signal or an `InputError` is returned unchanged, and a refusal is reduced to its message.
    """
    if isinstance(error, Refused):
        return ProgramError(error.message)
    if isinstance(error, asyncio.CancelledError | InputError):
        return error
    is_labkits = isinstance(error, LabkitError)
    return ProgramError(words_of(error) if is_labkits else error_with_line(learner.file, error))


async def lines_of_input() -> AsyncIterator[bytes]:
    """Yield the lines of standard input as they arrive, without line endings. Raises `InputError`.

    A thread reads the input, because asyncio cannot read files. It reads the file descriptor
    directly, because a thread blocked in `sys.stdin` would hold that object's lock when Python
    exits.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes | InputError | None] = asyncio.Queue()
    room = threading.Semaphore(_LINES_WAITING)

    def put(line: bytes | InputError | None) -> None:
        room.acquire()
        loop.call_soon_threadsafe(lines.put_nowait, line)

    def read() -> None:
        try:
            read_all()
        except OSError as error:
            put(InputError(f"standard input cannot be read: {error}"))

    def read_all() -> None:
        rest = b""
        while data := os.read(0, _READ_SIZE):
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                put(line)
        if rest:
            put(rest)
        put(None)

    threading.Thread(target=read, daemon=True).start()
    while (line := await lines.get()) is not None:
        if isinstance(line, InputError):
            raise line
        room.release()
        yield line
