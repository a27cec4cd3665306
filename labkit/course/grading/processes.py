"""processes: each submission is graded in a process of its own, with limits.

That process reads the notebooks and records, starts the sandbox and judges.  What it reports are
messages of bounded size.  If it ends, or takes too long, the results that came before count, and
the others say what happened; the next submission is not affected.
"""

import math
import os
import signal
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from labkit.course.checking.forked_check import limit_memory
from labkit.course.grading.isolation.channel import ChannelError, PipeChannel
from labkit.course.grading.isolation.sandbox import Limits
from labkit.course.grading.records import rows_of
from labkit.course.grading.results import NOT_GRADED, REFUSED, Result, storable
from labkit.course.grading.submissions import Submission

_JUDGE = "labkit.course.grading.grade"
_MOST_MESSAGE = 8 << 20
MEMORY_BYTES = 2 << 30
"""What the process of a submission may use beyond what it has at its start; each copy of it that
runs a trial has a limit as well."""


@dataclass(frozen=True, slots=True)
class Graded:
    """The outcome of one submission: results, rows of its records, and what was left out."""

    submission: Submission
    results: list[Result]
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def grade(submission: Submission, limits: Limits, is_shut_in: bool = True) -> Graded:
    """Grade one submission in a process of its own."""
    [graded] = grade_all([submission], limits, is_shut_in, jobs=1)
    return graded


def grade_all(
    submissions: list[Submission], limits: Limits, is_shut_in: bool, jobs: int
) -> Iterator[Graded]:
    """Yield each submission's outcome as soon as it ends; grade `jobs` submissions at a time."""
    waiting, running = deque(submissions), dict[Connection, _Process]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                process = _Process(waiting.popleft(), limits, is_shut_in)
                running[process.connection] = process
            first = min(each.until for each in running.values())
            for ready in wait(list(running), max(0.0, first - time.monotonic())):
                assert isinstance(ready, Connection)
                running[ready].hear()
            for connection, process in list(running.items()):
                process.end_if_late()
                if process.is_over:
                    del running[connection]
                    yield process.graded()
    finally:
        for process in running.values():
            process.kill()


class _Process:
    """The process of one submission, and what it has reported."""

    def __init__(self, submission: Submission, limits: Limits, is_shut_in: bool) -> None:
        self._submission, self._limits = submission, limits
        self._notebooks: list[dict[str, Result | None]] = []
        self._graded = Graded(submission, [])
        self.until = time.monotonic() + limits.submission_s
        self.is_over = False
        context = get_context("forkserver")
        context.set_forkserver_preload([_JUDGE])
        self.connection, writer = context.Pipe(duplex=False)
        self._channel = PipeChannel(self.connection.fileno(), -1, _MOST_MESSAGE, 0)
        self._process = context.Process(
            target=_judge, args=(writer, submission, limits, is_shut_in), daemon=True
        )
        self._process.start()
        writer.close()

    def hear(self) -> None:
        """Receive the next message, a part of which has arrived, or notice the process's end."""
        try:
            message = self._channel.receive(self.until)
        except ChannelError:
            # It may be late: `end_if_late` says so.
            if time.monotonic() < self.until:
                self._end(NOT_GRADED, "The process that graded this submission ended.")
            return
        if "plan" in message:
            self._notebooks.append(dict.fromkeys(map(storable, message["plan"])))
        elif "result" in message:
            result = Result(**message["result"])
            self._notebooks[-1][result.exercise] = result
        elif "rows" in message:
            self._graded.rows.extend(message["rows"])
            self._graded.problems.extend(message["problems"])
        else:
            self._end(*message["end"])

    def end_if_late(self) -> None:
        """End the process if its time is over."""
        if not self.is_over and time.monotonic() >= self.until:
            most = f"{self._limits.submission_s:g} s"
            self._end(REFUSED, f"Grading this submission took more than {most}.")

    def _end(self, outcome: str, why: str) -> None:
        """Report `why` for each exercise without a result, or once if every exercise has one."""
        self.kill()
        self.is_over = True
        missing = Result.bounded(
            student=self._submission.student, exercise="-", outcome=outcome, message=why
        )
        results = self._graded.results
        for notebook in self._notebooks:
            for name, result in notebook.items():
                results.append(result or replace(missing, exercise=name))
        if why and not any(None in notebook.values() for notebook in self._notebooks):
            results.append(missing)

    def kill(self) -> None:
        """End the process and the copies of it that run trials; their sandboxes end with them."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # also before it has a group of its own
        self._process.join()
        self.connection.close()

    def graded(self) -> Graded:
        """Return the outcome of the submission."""
        return self._graded


def _judge(
    connection: Connection, submission: Submission, limits: Limits, is_shut_in: bool
) -> None:
    """In the process of its own: judge, and report as it goes."""
    import resource  # noqa: PLC0415 - Windows has none

    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        # A library may print what a student wrote, such as a warning of Python's own parser.
        os.dup2(nothing, standard)
    limit_memory(MEMORY_BYTES)
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limits.submission_s), most))
    channel = PipeChannel(-1, connection.fileno(), 0, _MOST_MESSAGE)
    try:
        _report(channel, submission, limits, is_shut_in)
        end = NOT_GRADED, ""
    except (MemoryError, RecursionError):
        end = (
            REFUSED,
            "Reading this submission takes more memory than it may use, or nests too deeply.",
        )
    except Exception as error:  # noqa: BLE001
        # It is printed nowhere: its text may be a student's.
        words = f"{type(error).__name__}: {error}"[:300]
        end = NOT_GRADED, f"labkit failed with this submission: {words}"
    channel.send({"end": end})


def _report(channel: PipeChannel, submission: Submission, limits: Limits, is_shut_in: bool) -> None:
    # Only the processes of submissions need the time and memory that this import takes.
    from labkit.course.grading.grade import judged  # noqa: PLC0415

    for each in judged(submission, limits, is_shut_in):
        channel.send({"plan": each} if isinstance(each, tuple) else {"result": asdict(each)})
    rows, problems = rows_of(submission.student, submission.records)
    channel.send({"rows": rows, "problems": problems})
