"""Grades each submission in a judge, which is a separate process with limits.

The judge reads the notebooks and records, starts the sandbox, judges the answers, and reports the
results in messages of bounded size. If the judge exits early or takes too long, the results
received so far are kept, each remaining exercise is reported with the reason, and other submissions
are not affected.
"""

import math
import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from labkit.course.checking.forked_check import limit_memory
from labkit.course.grading.isolation.channel import ChannelError, PipeChannel
from labkit.course.grading.isolation.sandbox import Limits
from labkit.course.grading.records import rows_of
from labkit.course.grading.results import (
    NOT_GRADED,
    NOT_HANDED_IN,
    OPEN,
    PASSED,
    REFUSED,
    WHOLE,
    Result,
    storable,
)
from labkit.course.grading.submissions import Submission

_PRELOADED = "labkit.course.grading.grade"
_MAX_MESSAGE_BYTES = 8 << 20
MEMORY_BYTES = 2 << 30
"""The memory that a judge may use in addition to what it has at the start. Each trial, a fork of
the judge, has the same limit.
"""


@dataclass(frozen=True, slots=True)
class Graded:
    """The outcome of one submission: its results, the rows from its records, and the problems that
    occurred when the records were read.
    """

    submission: Submission
    results: list[Result]
    rows: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def stored(self) -> dict[str, Any]:
        """Return everything except the submission, as values that JSON can represent."""
        results = [asdict(each) for each in self.results]
        return {"results": results, "rows": self.rows, "problems": self.problems}

    @classmethod
    def restored(cls, submission: Submission, stored: Mapping[str, Any]) -> Self:
        results = [Result(**each) for each in stored["results"]]
        return cls(submission, results, stored["rows"], stored["problems"])


def grade(submission: Submission, limits: Limits) -> Graded:
    [graded] = grade_all([submission], limits, jobs=1)
    return graded


def grade_all(submissions: list[Submission], limits: Limits, jobs: int) -> Iterator[Graded]:
    """Yield the outcomes as submissions are graded, `jobs` at a time."""
    waiting, running = deque(submissions), dict[Connection, _Judge]()
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                process = _Judge(waiting.popleft(), limits)
                running[process.connection] = process
            first = min(each.until for each in running.values())
            for ready in wait(list(running), max(0.0, first - time.monotonic())):
                assert isinstance(ready, Connection)
                running[ready].hear()
            for connection, process in list(running.items()):
                process.end_if_late()
                if process.is_over:
                    del running[connection]
                    yield process.graded
    finally:
        for process in running.values():
            process.kill()


class _Judge:
    def __init__(self, submission: Submission, limits: Limits) -> None:
        self._submission, self._limits = submission, limits
        self._notebooks: list[dict[str, Result | None]] = []
        self.graded = Graded(submission, [])
        self.until = time.monotonic() + limits.submission_s
        self.is_over = False
        context = get_context("forkserver")
        context.set_forkserver_preload([_PRELOADED])
        self.connection, writer = context.Pipe(duplex=False)
        self._channel = PipeChannel(self.connection.fileno(), -1, _MAX_MESSAGE_BYTES, 0)
        self._process = context.Process(
            target=_run_judge, args=(writer, submission, limits), daemon=True
        )
        self._process.start()
        writer.close()

    def hear(self) -> None:
        try:
            message = self._channel.receive(self.until)
        except ChannelError:
            # If the process is late, `end_if_late` reports that.
            if time.monotonic() < self.until:
                self._end(NOT_GRADED, "The process that graded this submission ended.")
            return
        if "plan" in message:
            self._notebooks.append(dict.fromkeys(map(storable, message["plan"])))
        elif "result" in message:
            result = Result(**message["result"])
            self._notebooks[-1][result.exercise] = result
        elif "rows" in message:
            self.graded.rows.extend(message["rows"])
            self.graded.problems.extend(message["problems"])
        else:
            self._end(*message["end"])

    def end_if_late(self) -> None:
        if not self.is_over and time.monotonic() >= self.until:
            most = f"{self._limits.submission_s:g} s"
            self._end(NOT_GRADED, f"Grading this submission took more than {most}.")

    def _end(self, outcome: str, why: str) -> None:
        """Report `why` for each exercise that has no result or, if there is no such exercise, for
        the whole submission.

        If several notebooks contain the same exercise, its best result counts.
        """
        self.kill()
        self.is_over = True
        missing = Result.bounded(
            student=self._submission.student, exercise=WHOLE, outcome=outcome, message=why
        )
        best: dict[str, Result] = {}
        for notebook in self._notebooks:
            for name, found in notebook.items():
                result = found or replace(missing, exercise=name)
                best[name] = min(best.get(name, result), result, key=_rank)
        self.graded.results.extend(best.values())
        if why and not any(None in notebook.values() for notebook in self._notebooks):
            self.graded.results.append(missing)

    def kill(self) -> None:
        """Kill the judge and its trial; the sandbox exits with the judge."""
        assert self._process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()  # The process may not have created its own group yet.
        self._process.join()
        self.connection.close()


def _rank(result: Result) -> int:
    return (PASSED, NOT_GRADED, REFUSED, OPEN, NOT_HANDED_IN).index(result.outcome)


def _run_judge(connection: Connection, submission: Submission, limits: Limits) -> None:
    """Grade the submission and send each result as soon as it is known. This runs in the judge."""
    import resource  # noqa: PLC0415 - Windows has none

    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        # A library may print text written by a student, for example a warning from Python's parser.
        os.dup2(nothing, standard)
    limit_memory(MEMORY_BYTES)
    most = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limits.submission_s), most))
    channel = PipeChannel(-1, connection.fileno(), 0, _MAX_MESSAGE_BYTES)
    try:
        _report(channel, submission, limits)
        end = NOT_GRADED, ""
    except (MemoryError, RecursionError):
        end = REFUSED, "This submission exceeds the memory limit, or is nested too deeply."
    except Exception as error:  # noqa: BLE001
        # Report the error but do not print it, because its text may come from a student.
        text = f"{type(error).__name__}: {error}"[:300]
        end = NOT_GRADED, f"labkit failed to grade this submission: {text}"
    channel.send({"end": end})


def _report(channel: PipeChannel, submission: Submission, limits: Limits) -> None:
    # This import takes time and memory, so only the judges execute it.
    from labkit.course.grading.grade import grade_exercises  # noqa: PLC0415

    for each in grade_exercises(submission, limits):
        channel.send({"plan": each} if isinstance(each, tuple) else {"result": asdict(each)})
    rows, problems = rows_of(submission.student, submission.records)
    channel.send({"rows": rows, "problems": problems})
