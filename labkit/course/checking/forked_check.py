"""A check in a copy of this process, so that a function that never comes back can be stopped.

Python code is stopped by counting its steps (`check`).  A function that sleeps takes no steps, and
one that loops in C code, such as `sum(itertools.count())`, lets nothing else run in its process.
So the trial runs in a forked copy, which tells this process how long the learner's function has
been at work, and ends with it.  On Linux the copy's memory has a limit as well, whatever the trial
allocates.  What it sends back is the card; a card that cannot be sent is made again here, as it is
known by then that the code comes to an end.

Where there is no fork (Windows, a browser) only the steps are counted.
"""

import contextlib
import faulthandler
import io
import math
import mmap
import os
import pickle
import re
import signal
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import wraps
from itertools import islice
from typing import Any

CAN_FORK = hasattr(os, "fork") and sys.platform not in ("emscripten", "wasi")
_POLL_S = 0.02
_TRACEBACK_S = 1.0
_TRACEBACK_PIECES = 4
_CLOCK = struct.Struct("dd")
_MEMORY_BYTES = 2 << 30
"""What a copy may use beyond what it has at its start.  The largest trials, those of the workshop,
use a quarter of it."""
_MOST_RECEIVED = 64 << 20


class Reason(Enum):
    """Why a copy gave no answer."""

    LATE = auto()
    ENDED = auto()
    MEMORY = auto()


@dataclass(frozen=True, slots=True)
class Stopped:
    """The copy gave no answer: it took too long, needed too much memory, or its code ended it.

    `where` is the learner's last line, "" if unknown.
    """

    reason: Reason
    where: str = ""


@dataclass(frozen=True, slots=True)
class _Watch:
    """A function and its file, how long it may be at work, and how long all the work may take."""

    learner: Any
    limit_s: float
    file: str
    wall_s: float


class Clock:
    """How long the learner's function has been at work, for two processes to see."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _CLOCK.size)

    @property
    def worked_s(self) -> float:
        """The time of all calls, the present one included."""
        before: float
        before, since = _CLOCK.unpack(self._memory[:])
        return before + (time.monotonic() - since if since else 0.0)

    def timed(self, learner: Any) -> Any:
        """The learner's function, its calls timed; anything else as it is."""
        if not callable(learner):
            return learner

        @wraps(learner)
        def timed(*arguments: Any) -> Any:
            before = self.worked_s
            self._memory[:] = _CLOCK.pack(before, time.monotonic())
            try:
                return learner(*arguments)
            finally:
                self._memory[:] = _CLOCK.pack(self.worked_s, 0.0)

        return timed


def in_forked_copy(
    work: Callable[[Any], Any],
    learner: Any,
    limit_s: float,
    file: str = "",
    wall_s: float = math.inf,
) -> Any:
    """What `work(learner)` returns in a copy of this process, or `Stopped`, or None if the copy's
    answer could not be sent: then do the work here.

    limit_s: how long the function `learner` may be at work; file: the learner's, if that function
    is not in it; wall_s: how long all the work may take.
    """
    clock = Clock()
    answers, answer_end = os.pipe()
    traceback, traceback_end = os.pipe()
    with warnings.catch_warnings():
        # Python warns of other threads' locks; the copy uses nothing that they hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        copy = os.fork()
    if copy == 0:
        _work_and_exit(work, clock.timed(learner), answer_end, traceback_end)
    os.close(answer_end)
    os.close(traceback_end)
    with os.fdopen(answers, "rb") as reader, os.fdopen(traceback, "rb") as last_lines:
        return _answer_of(copy, reader, last_lines, clock, _Watch(learner, limit_s, file, wall_s))


def _work_and_exit(
    work: Callable[[Any], Any], learner: Any, answer_end: int, traceback_end: int
) -> None:
    """In the copy: what it prints, it prints at the end, and it runs no other code's exits."""
    status = _DONE
    try:
        limit_memory(_MEMORY_BYTES)
        faulthandler.register(signal.SIGUSR1, file=traceback_end)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            answer = work(learner)
        with contextlib.suppress(*_CANNOT_BE_SENT), os.fdopen(answer_end, "wb") as writer:
            writer.write(pickle.dumps((answer, said.getvalue())))
    except MemoryError:
        status = _NO_MEMORY
    finally:
        os._exit(status)


def limit_memory(more_bytes: int) -> None:
    """Limit this process to `more_bytes` of address space beyond what it uses now.

    Where the present size is unknown, such as on macOS, set no limit.
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
    except FileNotFoundError:
        return
    import resource  # noqa: PLC0415 - Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    known = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    most = min([pages * resource.getpagesize() + more_bytes, *known])
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


@contextlib.contextmanager
def without_memory_limit() -> Iterator[None]:
    """Start other programs without the limit that `limit_memory` set for this process."""
    if sys.platform == "win32":
        yield
        return
    import resource  # noqa: PLC0415 - Windows has none

    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limits[1], limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


_DONE, _NO_MEMORY = 97, 96
"""The exit status of a copy that did its work, and of one that could not; others are the
learner's."""
_CANNOT_BE_SENT = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


def _answer_of(
    copy: int,
    reader: io.BufferedReader,
    last_lines: io.BufferedReader,
    clock: Clock,
    watch: _Watch,
) -> Any:
    os.set_blocking(reader.fileno(), False)
    received, ended, status = bytearray(), False, 0
    until = time.monotonic() + watch.wall_s
    try:
        while not ended:
            ended_pid, status = os.waitpid(copy, os.WNOHANG)
            ended = ended_pid == copy
            for piece in _available(reader):
                received += piece
                if len(received) > _MOST_RECEIVED:
                    return Stopped(Reason.MEMORY)
            if not ended and (clock.worked_s > watch.limit_s or time.monotonic() > until):
                return Stopped(Reason.LATE, _where(copy, last_lines, watch))
            time.sleep(0 if ended else _POLL_S)
    finally:
        if not ended:
            os.kill(copy, signal.SIGKILL)
            os.waitpid(copy, 0)
    if not received:
        return _without_answer(status)
    answer, said = pickle.loads(received)
    sys.stdout.write(said)
    return answer


def _without_answer(status: int) -> Stopped | None:
    """What to make of a copy that ended with this status and sent nothing."""
    if os.WIFSIGNALED(status):
        # Such as too deep a recursion of C code: here it would end this process.
        return Stopped(Reason.ENDED)
    by_itself = {_DONE: None, _NO_MEMORY: Stopped(Reason.MEMORY)}
    return by_itself.get(os.WEXITSTATUS(status), Stopped(Reason.ENDED))


def _where(copy: int, last_lines: io.BufferedReader, watch: _Watch) -> str:
    """Ask the copy for the learner's last line."""
    os.kill(copy, signal.SIGUSR1)
    time.sleep(_TRACEBACK_S)
    os.set_blocking(last_lines.fileno(), False)
    text = b"".join(islice(_available(last_lines), _TRACEBACK_PIECES)).decode(errors="replace")
    return _learners_line(text, watch)


def _available(pipe: io.BufferedReader) -> Iterator[bytes]:
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(pipe.fileno(), 65_536):
            yield piece


def _learners_line(traceback: str, watch: _Watch) -> str:
    """The function of the learner's file that was called last, as `faulthandler` names it."""
    code = getattr(watch.learner, "__code__", None)
    if code is None:
        return getattr(watch.learner, "__name__", "")
    learners_file = watch.file or code.co_filename
    places = re.findall(r'File "(.*)", line (\d+) in (\S+)', traceback)
    for file, line, function in places:
        if file.endswith(learners_file[-100:]):
            return f"{function}, line {line}"
    return ""
