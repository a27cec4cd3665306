"""A check in a copy of this process, so that a function that never comes back can be stopped.

Python code is stopped by counting its steps (`check`).  A function that sleeps takes no steps, and
one that loops in C code, such as `sum(itertools.count())`, lets nothing else run in its process.
So the trial runs in a forked copy, which tells this process how long the learner's function has
been at work, and ends with it.  What it sends back is the card; a card that cannot be sent is made
again here, as it is known by then that the code comes to an end.

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
from functools import wraps
from typing import Any

CAN_FORK = hasattr(os, "fork") and sys.platform not in ("emscripten", "wasi")
_POLL_S = 0.02
_TRACEBACK_S = 1.0
_CLOCK = struct.Struct("dd")


@dataclass(frozen=True, slots=True)
class Stopped:
    """The copy gave no answer: it took too long, or the learner's code ended it.

    `where` is the learner's last line, "" if unknown.
    """

    is_late: bool
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


def apart(
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
    try:
        faulthandler.register(signal.SIGUSR1, file=traceback_end)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            answer = work(learner)
        with contextlib.suppress(*_CANNOT_BE_SENT), os.fdopen(answer_end, "wb") as writer:
            writer.write(pickle.dumps((answer, said.getvalue())))
    finally:
        os._exit(_DONE)


_DONE = 97
"""The exit status of a copy that did its work; any other is the learner's."""
_CANNOT_BE_SENT = (pickle.PicklingError, TypeError, AttributeError, RecursionError)


def _answer_of(
    copy: int,
    reader: io.BufferedReader,
    last_lines: io.BufferedReader,
    clock: Clock,
    watch: _Watch,
) -> Any:
    os.set_blocking(reader.fileno(), False)
    received, ended, status = b"", False, 0
    until = time.monotonic() + watch.wall_s
    try:
        while not ended:
            ended_pid, status = os.waitpid(copy, os.WNOHANG)
            ended = ended_pid == copy
            received += b"".join(_available(reader))
            if not ended and (clock.worked_s > watch.limit_s or time.monotonic() > until):
                os.kill(copy, signal.SIGUSR1)
                time.sleep(_TRACEBACK_S)
                os.set_blocking(last_lines.fileno(), False)
                text = b"".join(_available(last_lines)).decode(errors="replace")
                return Stopped(True, _learners_line(text, watch))
            time.sleep(0 if ended else _POLL_S)
    finally:
        if not ended:
            os.kill(copy, signal.SIGKILL)
            os.waitpid(copy, 0)
    if not received:
        is_learners = os.WIFEXITED(status) and os.WEXITSTATUS(status) != _DONE
        return Stopped(is_late=False) if is_learners else None
    answer, said = pickle.loads(received)
    sys.stdout.write(said)
    return answer


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
