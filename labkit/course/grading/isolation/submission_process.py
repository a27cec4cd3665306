"""The submission's end of the pipes, which runs in the sandbox.

    python -m labkit.course.grading.isolation.submission_process
        MEGABYTES PROCESSES OPEN_FILES CELL_SECONDS USER [spark]

The first incoming message contains the notebook's code cells and the names of those functions of
labkit that are blocked. Each call of `check` reports an answer to the judge. A trial then sends
requests to call these answers, and this process returns the results. The submission's code runs in
this process and may break everything in it. The judge trusts nothing in this process except the
returned values, which are the submission's own answers.
"""

import ast
import asyncio
import builtins
import inspect
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from traceback import extract_tb
from types import FrameType
from typing import Any
from unittest.mock import MagicMock, Mock

import labkit.course.lessons
import labkit.system.model.errors
from labkit.course.checking.card import Card, CardState
from labkit.course.checking.plain_values import without_numpy
from labkit.course.grading.isolation.block_answers import block_answers
from labkit.course.grading.isolation.channel import ChannelError, PipeChannel
from labkit.course.grading.isolation.sandbox import MAX_SLOWDOWN
from labkit.course.grading.slices import needed_code, syntax_errors
from labkit.course.grading.values import decode_value, encode_value

_CELL = "<your notebook>"
_FILE_BYTES = 64 << 20
MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES = 64 << 20, 4 << 20
"""Size limits in bytes of a message to the sandbox, which may contain a table, and of one from
it.
"""


class CellTooLongError(BaseException):
    """Raised if a cell used too much processor time."""


class CellUnfinishedError(BaseException):
    """Raised if a cell did not finish in time, either because it sleeps or because the machine is
    busy.
    """


class SubmissionProcess:
    """The answers of one submission, which a trial can call."""

    def __init__(self, channel: PipeChannel) -> None:
        self._channel = channel
        self._answers: dict[str, Any] = {}
        self._call: Callable[..., Any] = lambda answer, arguments: answer(*arguments)

    def send(self, **message: Any) -> None:
        self._channel.send(message)

    def receive(self) -> Any:
        """Return the judge's next message. Raises `SystemExit` if the judge has exited."""
        try:
            return self._channel.receive()
        except ChannelError:
            raise SystemExit from None

    def record_answer(self, name: str, learner: Any, must_pass: bool | None = None) -> Card:
        """Record the answer; this method replaces `check`. The last answer to each exercise counts.

        A lesson's own demonstrations of wrong answers, which set `must_pass=False`, do not count.
        Return a passed card, so that the rest of the cell runs as it would for a right answer.
        """
        if must_pass is not False:
            self._answers[name] = learner
            self.send(answer=name, **describe_answer(learner))
        return Card(name, CardState.PASSED, "")

    def run(self, cells: list[str], cell_s: int) -> None:
        """Run the code that the answers need; if a cell raises an exception, end that cell and
        report the exception.
        """
        labkit.course.lessons.check = self.record_answer
        # Displays and magic commands do nothing here.
        names = {"__name__": "__main__", "display": Mock(), "get_ipython": MagicMock()}
        for problem in syntax_errors(cells):
            self.send(problem={"kind": "SyntaxError", "text": problem})
        for tree in needed_code(cells):
            try:
                with _alarm(cell_s):
                    code = compile(tree, _CELL, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                    waiting = eval(code, names)
                    if inspect.iscoroutine(waiting):
                        asyncio.run(waiting)
            except BaseException as error:  # noqa: BLE001
                start = ast.unparse(tree).partition("\n")[0]
                self.send(problem=_described_error(error) | {"cell": start})
        self.send(loaded=True)

    def serve(self) -> None:
        while True:
            request = self.receive()
            if "ping" in request:
                self.send(pong=request["ping"])
                continue
            try:
                arguments = [decode_value(each, self._called_back) for each in request["arguments"]]
                result = without_numpy(self._call(self._answers[request["name"]], arguments))
                self.send(id=request["id"], returned=encode_value(result))
            except BaseException as error:  # noqa: BLE001
                self.send(id=request["id"], raised=_described_error(error))

    def start_spark(self) -> None:
        """Start Spark; from now on, answers are called as Spark jobs, with DataFrames created in
        this process.
        """
        # Importing Spark takes seconds, so only submissions that need it import it.
        from labkit.course.grading.frames import in_spark  # noqa: PLC0415
        from labkit.views.spark.session import spark_session  # noqa: PLC0415

        self._call = partial(in_spark, spark_session("submission"))

    def _called_back(self, number: int) -> Callable[..., Any]:
        """Return a stub for one of the trial's functions, such as the function that lists the
        stored ledgers.
        """

        def function(*arguments: Any) -> Any:
            self.send(call=number, arguments=[encode_value(each) for each in arguments])
            response = self.receive()
            if "failed" in response:
                raise _error_of(*response["failed"])
            return decode_value(response["returned"])

        return function


def _error_of(kind: str, text: str, number: int) -> Exception:
    """Return the exception that one of the trial's functions raised, with the number that
    identifies the exception in the trial.
    """
    found = getattr(labkit.system.model.errors, kind, getattr(builtins, kind, None))
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found = RuntimeError
    error = found(text)
    error.number_in_trial = number  # type: ignore[attr-defined]
    return error


def describe_answer(answer: Any) -> dict[str, Any]:
    """Return a description of the kind of answer, which the judge receives before it calls the
    answer.
    """
    if answer is None:
        return {"kind": "none"}
    if callable(answer):
        code = getattr(inspect.unwrap(answer), "__code__", None)
        return {
            "kind": "function",
            "title": getattr(answer, "__name__", type(answer).__name__),
            "parameters": _parameters(answer),
            "origin": str(getattr(answer, "__module__", "")),
            "file": code.co_filename if code else "",
        }
    try:
        return {"kind": "value", "value": encode_value(answer)}
    except Exception:  # noqa: BLE001
        return {"kind": "other", "title": type(answer).__name__}


def _parameters(function: Any) -> list[tuple[str, int, bool]] | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    return [(each.name, int(each.kind), each.default is not each.empty) for each in parameters]


def _described_error(error: BaseException) -> dict[str, Any]:
    own = [each for each in extract_tb(error.__traceback__) if each.filename == _CELL]
    where = f"{own[-1].name}, line {own[-1].lineno}" if own else ""
    description = {"kind": type(error).__name__, "text": str(error)[:500], "where": where}
    return description | {"failed": getattr(error, "number_in_trial", None)}


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    """Interrupt a cell after `seconds` of processor time, or when it has slept for too long."""

    def ring(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGPROF:
            raise CellTooLongError(f"the cell used more than {seconds} s of processor time")
        raise CellUnfinishedError(f"the cell did not end within {MAX_SLOWDOWN * seconds} s")

    signal.signal(signal.SIGALRM, ring)
    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_REAL, MAX_SLOWDOWN * seconds)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)


def _limit(megabytes: int, processes: int, open_files: int, user: int, has_spark: bool) -> None:
    """Limit the resources of this process; the limits cannot be raised afterwards."""
    import resource  # noqa: PLC0415 - Windows has none

    if user:
        # The kernel does not apply the limit on processes to root.
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    if has_spark:
        # A JVM reserves gigabytes of address space that it never uses, so even the limit inherited
        # from the judge must be lifted.
        most = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for what, most in (
        (resource.RLIMIT_DATA if has_spark else resource.RLIMIT_AS, megabytes << 20),
        (resource.RLIMIT_NPROC, processes),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(what, (most, most))


def main() -> None:
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    megabytes, processes, open_files, cell_s, user = map(int, sys.argv[1:6])
    has_spark = sys.argv[6:] == ["spark"]
    _limit(megabytes, processes, open_files, user, has_spark)
    channel = PipeChannel(
        os.dup(0), os.dup(1), max_in_bytes=MAX_REQUEST_BYTES, max_out_bytes=MAX_RESPONSE_BYTES
    )
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    process = SubmissionProcess(channel)
    process.send(ready=True)
    notebook = process.receive()
    block_answers(notebook["blocked_answers"])
    if has_spark:
        process.start_spark()
    process.run(notebook["cells"], cell_s)
    process.serve()


if __name__ == "__main__":
    main()
