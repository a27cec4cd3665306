"""Runs a check in a forked copy of this process, so that a function that never returns can be
stopped.

Python code is stopped when it has executed too many instructions (`check`). However, a sleeping
function executes no instructions, and a function that loops in C code, such as
`sum(itertools.count())`, blocks everything else in its process. The trial therefore runs in a
forked child process, which reports how long the learner's function has been running and exits when
the trial is done. On Linux, the child's memory is limited too. The child sends back the card. If
the card cannot be pickled, the trial is repeated in this process, because by then the code is known
to terminate.

Where fork is not available (on Windows and in a browser), counting instructions is the only limit.
"""

import contextlib
import faulthandler
import gc
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
"""The memory that the child may use in addition to what it has at the start, unless this process
has a lower limit itself. The largest trials, those of the workshop, use a quarter of it.
"""
_MAX_RECEIVED_BYTES = 64 << 20


class Reason(Enum):
    LATE = auto()
    """The learner's function exceeded its time limit."""
    UNFINISHED = auto()
    """The trial exceeded `wall_s`, but not because of the learner's function."""
    ENDED = auto()
    MEMORY = auto()


@dataclass(frozen=True, slots=True)
class Stopped:
    """The child process returned no result, because it took too long, needed too much memory, or
    exited.

    `where` is the last line of the learner's code that ran, or "" if that line is unknown.
    `is_killed` is true if another process or the kernel killed the child, as happens when the
    machine runs out of memory.
    """

    reason: Reason
    where: str = ""
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class _Watch:
    learner: Any
    limit_s: float
    file: str
    wall_s: float
    processor_s: Callable[[int], float] | None


class Clock:
    """Measures how long the learner's function has been running, using memory that both processes
    share.
    """

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _CLOCK.size)

    @property
    def worked_s(self) -> float:
        """The total time of all calls so far, including the current call."""
        before: float
        before, since = _CLOCK.unpack(self._memory[:])
        return before + (time.monotonic() - since if since else 0.0)

    def timed(self, learner: Any) -> Any:
        """Wrap the learner's function so that its calls are timed; return any other object
        unchanged.
        """
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
    processor_s: Callable[[int], float] | None = None,
) -> Any:
    """Run `work(learner)` in a forked copy of this process, and return its result.

    Returns a `Stopped` if the copy was stopped. Returns None if the result could not be sent back;
    the caller should then run `work` itself.

    limit_s: the time limit for the function `learner`; file: the learner's file, if `learner` is
    not defined in that file; wall_s: the time limit for all the work; processor_s: a function that
    takes the copy's process id, and returns the processor time that the copy and the learner's
    function have used. If `processor_s` is given, the learner's function counts as late only if
    this processor time also exceeds `limit_s`, so that no function is late merely because the
    machine is busy.
    """
    clock = Clock()
    answers, answer_end = os.pipe()
    traceback, traceback_end = os.pipe()
    with warnings.catch_warnings():
        # Python warns about locks held by other threads, but the copy uses none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        copy = os.fork()
    if copy == 0:
        _work_and_exit(work, clock.timed(learner), answer_end, traceback_end)
    os.close(answer_end)
    os.close(traceback_end)
    with os.fdopen(answers, "rb") as reader, os.fdopen(traceback, "rb") as last_lines:
        watch = _Watch(learner, limit_s, file, wall_s, processor_s)
        return _answer_of(copy, reader, last_lines, clock, watch)


def _work_and_exit(
    work: Callable[[Any], Any], learner: Any, answer_end: int, traceback_end: int
) -> None:
    """Do the work in the copy, send the result and the captured output, and exit without running
    exit handlers.
    """
    status = _DONE
    # Never destroy objects that were created before the fork. For example, the destructor of a
    # Pulsar producer would wait forever for threads that the copy does not have.
    gc.freeze()
    try:
        limit_memory(_MEMORY_BYTES)
        faulthandler.register(signal.SIGUSR1, file=traceback_end)
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            answer = work(learner)
        with contextlib.suppress(*_CANNOT_BE_SENT), os.fdopen(answer_end, "wb") as writer:
            writer.write(pickle.dumps((answer, output.getvalue())))
    except MemoryError:
        status = _NO_MEMORY
    finally:
        os._exit(status)


def limit_memory(more_bytes: int) -> None:
    """Limit this process to `more_bytes` more address space than it currently uses.

    No limit is set if the current size is unknown, as on macOS.
    """
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
    except FileNotFoundError:
        return
    import resource  # noqa: PLC0415 - Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [each for each in (soft, hard) if each != resource.RLIM_INFINITY]
    most = min([pages * resource.getpagesize() + more_bytes, *limits])
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))


@contextlib.contextmanager
def without_memory_limit() -> Iterator[None]:
    """Lift the limit set by `limit_memory`, so that other programs can be started without it."""
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
"""Exit statuses of a copy that finished, and of a copy that ran out of memory. The learner's code
may exit with any status. If it exits with the first status, the caller runs it again.
"""
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
    used_before_s = watch.processor_s(copy) if watch.processor_s else 0.0

    def is_used_up() -> bool:
        used_s = watch.processor_s(copy) - used_before_s if watch.processor_s else math.inf
        return used_s > watch.limit_s

    try:
        while not ended:
            ended_pid, status = os.waitpid(copy, os.WNOHANG)
            ended = ended_pid == copy
            for piece in _available(reader):
                received += piece
                if len(received) > _MAX_RECEIVED_BYTES:
                    return Stopped(Reason.MEMORY)
            if not ended and clock.worked_s > watch.limit_s and is_used_up():
                return Stopped(Reason.LATE, _where(copy, last_lines, watch))
            if not ended and time.monotonic() > until:
                return Stopped(Reason.LATE if is_used_up() else Reason.UNFINISHED)
            time.sleep(0 if ended else _POLL_S)
    finally:
        if not ended:
            os.kill(copy, signal.SIGKILL)
            os.waitpid(copy, 0)
    # A copy that exited in any other way may have sent only part of the result.
    if not received or not os.WIFEXITED(status) or os.WEXITSTATUS(status) != _DONE:
        return _without_answer(status)
    answer, output = pickle.loads(received)
    sys.stdout.write(output)
    return answer


def _without_answer(status: int) -> Stopped | None:
    """Interpret the exit status of a copy that did not send a result."""
    if os.WIFSIGNALED(status):
        # For example, a stack overflow in C code killed the copy. Without the fork, it would have
        # killed this process.
        return Stopped(Reason.ENDED, is_killed=os.WTERMSIG(status) == signal.SIGKILL)
    by_itself = {_DONE: None, _NO_MEMORY: Stopped(Reason.MEMORY)}
    return by_itself.get(os.WEXITSTATUS(status), Stopped(Reason.ENDED))


def _where(copy: int, last_lines: io.BufferedReader, watch: _Watch) -> str:
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
    """Find the learner's innermost function in `faulthandler`'s output, and return its name and
    line.
    """
    code = getattr(watch.learner, "__code__", None)
    if code is None:
        return getattr(watch.learner, "__name__", "")
    learners_file = watch.file or code.co_filename
    frames = re.findall(r'File "(.*)", line (\d+) in (\S+)', traceback)
    for file, line, function in frames:
        if file.endswith(learners_file[-100:]):
            return f"{function}, line {line}"
    return ""
