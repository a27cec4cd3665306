"""inside: the submission's side of the border.

    python -m labkit.course.grading.isolation.inside MEGABYTES PROCESSES OPEN_FILES CELL_SECONDS
    USER [spark]

The first message that comes in is the notebook's code cells and the functions of labkit that are
withheld from it.  Each call of `check` is sent as an answer to an exercise; then calls of the
answers come in, and what they return is sent.  The submission's code runs in this very process and
may break all of it: the grader believes nothing here but the values, which are the submission's own
answers.
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

import labkit.course.lessons
import labkit.system.model.errors
from labkit.course.checking.exercise import plain
from labkit.course.grading.blocked_answers import withhold
from labkit.course.grading.isolation.channel import ChannelError, PipeChannel
from labkit.course.grading.slices import needed
from labkit.course.grading.values import packed, unpacked

_CELL = "<your notebook>"
_FILE_BYTES = 64 << 20
MOST_ASKED, MOST_SAID = 64 << 20, 4 << 20
"""Bytes of one message of the grader, which may be a table, and of one of the submission."""


class CellTooLongError(BaseException):
    """A cell did not come to an end."""


class Inside:
    """The answers of one submission, and calls of them."""

    def __init__(self, channel: PipeChannel) -> None:
        self._channel = channel
        self._answers: dict[str, Any] = {}
        self._call: Callable[..., Any] = lambda answer, arguments: answer(*arguments)

    def say(self, **message: Any) -> None:
        """Send one message to the grader.  Raises ValueError for one that is too large."""
        self._channel.send(message)

    def hear(self) -> Any:
        """The grader's next message.  Raises `SystemExit` when the grader is gone."""
        try:
            return self._channel.receive()
        except ChannelError:
            raise SystemExit from None

    def keep(self, name: str, answer: Any, *_: Any, **__: Any) -> None:
        """Stands in the place of `check`: the last answer to an exercise counts."""
        self._answers[name] = answer
        self.say(answer=name, **described(answer))

    def run(self, cells: list[str], cell_s: int) -> None:
        """Run what the answers need; an error ends its cell and is reported."""
        labkit.course.lessons.check = self.keep  # type: ignore[assignment]
        names: dict[str, Any] = {"__name__": "__main__", "display": lambda *_: None}
        for tree in needed(cells):
            try:
                with _alarm(cell_s):
                    code = compile(tree, _CELL, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                    waiting = eval(code, names)
                    if inspect.iscoroutine(waiting):
                        asyncio.run(waiting)
            except BaseException as error:  # noqa: BLE001
                self.say(problem=_described_error(error))
        self.say(loaded=True)

    def serve(self) -> None:
        """Call the answers for as long as the grader asks."""
        while True:
            asked = self.hear()
            if "ping" in asked:
                self.say(pong=asked["ping"])
                continue
            try:
                arguments = [unpacked(each, self._called_back) for each in asked["arguments"]]
                result = plain(self._call(self._answers[asked["name"]], arguments))
                self.say(id=asked["id"], returned=packed(result))
            except BaseException as error:  # noqa: BLE001
                self.say(id=asked["id"], raised=_described_error(error))

    def start_spark(self) -> None:
        """Answers are jobs from now on: they get DataFrames of this process's session."""
        # Only these submissions wait for the seconds that the import of Spark takes.
        from labkit.course.grading.frames import in_spark  # noqa: PLC0415
        from labkit.views.spark.session import spark_session  # noqa: PLC0415

        self._call = partial(in_spark, spark_session("submission"))

    def _called_back(self, number: int) -> Callable[..., Any]:
        """A function of the grader's, such as one that lists what is stored."""

        def function(*arguments: Any) -> Any:
            self.say(call=number, arguments=[packed(each) for each in arguments])
            said = self.hear()
            if "failed" in said:
                raise _error_of(*said["failed"])
            return unpacked(said["returned"])

        return function


def _error_of(kind: str, text: str, number: int) -> Exception:
    """What a function of the grader's raised, with its number there."""
    found = getattr(labkit.system.model.errors, kind, getattr(builtins, kind, None))
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found = RuntimeError
    error = found(text)
    error.number_at_grader = number  # type: ignore[attr-defined]
    return error


def described(answer: Any) -> dict[str, Any]:
    """What the grader learns of an answer before it calls it."""
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
        return {"kind": "value", "value": packed(answer)}
    except Exception:  # noqa: BLE001
        return {"kind": "other", "title": type(answer).__name__}


def _parameters(function: Any) -> list[tuple[str, int, bool]] | None:
    try:
        taken = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return None
    return [(each.name, int(each.kind), each.default is not each.empty) for each in taken]


def _described_error(error: BaseException) -> dict[str, Any]:
    own = [each for each in extract_tb(error.__traceback__) if each.filename == _CELL]
    where = f"{own[-1].name}, line {own[-1].lineno}" if own else ""
    described = {"kind": type(error).__name__, "text": str(error)[:500], "where": where}
    return described | {"failed": getattr(error, "number_at_grader", None)}


@contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise CellTooLongError(f"it ran for more than {seconds} s")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def _limit(megabytes: int, processes: int, open_files: int, user: int, has_spark: bool) -> None:
    """Give up what this process may use; it cannot take it back."""
    import resource  # noqa: PLC0415 - Windows has none

    if user:
        # The limit of processes does not hold for root.
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
    if has_spark:
        # A JVM reserves gigabytes of addresses that it never writes to: not even the grader's own
        # limit, which was inherited, may hold.
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
    """Serve one submission until the grader hangs up."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    megabytes, processes, open_files, cell_s, user = map(int, sys.argv[1:6])
    has_spark = sys.argv[6:] == ["spark"]
    _limit(megabytes, processes, open_files, user, has_spark)
    channel = PipeChannel(os.dup(0), os.dup(1), most_in=MOST_ASKED, most_out=MOST_SAID)
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    inside = Inside(channel)
    inside.say(ready=True)
    notebook = inside.hear()
    withhold(notebook["withheld"])
    if has_spark:
        inside.start_spark()
    inside.run(notebook["cells"], cell_s)
    inside.serve()


if __name__ == "__main__":
    main()
