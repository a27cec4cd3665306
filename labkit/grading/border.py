"""border: the grader's end of the pipe.

    with Border(cells, limits) as border:
        border.answers["quorums.write_set"]     a `Remote`, which is called like the function itself

A trial in a forked copy of the grader (`labkit.lessons.apart`) uses the same pipe: while it runs,
the grader itself waits.
"""

import itertools
import json
import os
import select
import time
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from types import TracebackType
from typing import Any, Self

from labkit.grading.sandbox import Limits, pipes, start
from labkit.grading.values import CannotCrossError, packed, unpacked
from labkit.lessons.exercise import RaisedThereError

LONGEST_BYTES = 4 << 20
"""Of one message."""
PING_S = 2.0
OWN = "labkit"
_KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)
"""By the number that `inspect` gives each kind."""


class NoAnswerError(Exception):
    """The submission's process has ended, or says nothing that the grader understands."""


class Remote:
    """A function of the submission, called across the border."""

    def __init__(self, border: "Border", name: str, described: dict[str, Any]) -> None:
        self._border, self._name = border, name
        self.__name__ = str(described.get("title"))[:80]
        self.__module__ = "builtins"
        self.origin, self.file = str(described.get("origin")), str(described.get("file"))
        signed = _signature(described.get("parameters"))
        if signed is not None:
            self.__signature__ = signed

    @property
    def is_labkits(self) -> bool:
        """Whether labkit defines it, as far as the submission's process can tell."""
        return self.origin.split(".")[0] == OWN or "/labkit/" in self.file

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self._border.ask(self._name, arguments)
        except (NoAnswerError, CannotCrossError) as error:
            raise RaisedThereError(str(error), self.__name__) from None


def _signature(parameters: Any) -> Signature | None:
    """What the function takes, as the submission says; None if that makes no sense."""
    try:
        return Signature(
            [
                Parameter(name, _KINDS[kind], default=None if has_default else Parameter.empty)
                for name, kind, has_default in parameters
            ]
        )
    except (ValueError, TypeError, LookupError):
        return None


class Border:
    """One submission's process, and what it answers."""

    def __init__(
        self,
        cells: list[str],
        limits: Limits,
        is_shut_in: bool = True,
        withheld: Sequence[str] = (),
    ) -> None:
        self.answers: dict[str, Any] = {}
        self.problems: list[str] = []
        self._ids = itertools.count()
        self._process = start(limits, is_shut_in)
        self._to, self._from = pipes(self._process)
        self._received = b""
        self._load(cells, withheld, time.monotonic() + limits.load_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.kill()  # and with it all that it started
        self._process.wait()
        self._to.close()
        self._from.close()

    def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """What the submission's answer returns for these arguments.

        Raises `RaisedThereError` or NotImplementedError for what it raised, `NoAnswerError`, and
        `CannotCrossError`.
        """
        kept: list[Callable[..., Any]] = []
        errors: list[Exception] = []

        def number_of(function: Callable[..., Any]) -> int:
            kept.append(function)
            return len(kept) - 1

        request = f"{name}:{next(self._ids)}"
        forms = [packed(each, number_of) for each in arguments]
        self._send({"id": request, "name": name, "arguments": forms})
        while True:
            reply = self._hear()
            if "call" in reply:
                self._send(_called(kept, reply, errors))
            elif reply.get("id") != request:
                raise NoAnswerError("an answer to another question")
            elif "raised" in reply:
                _raise(reply["raised"], errors)
            else:
                return unpacked(reply.get("returned"))

    def is_in_step(self) -> bool:
        """Whether the process still answers: nothing of an earlier call is under way."""
        number = next(self._ids)
        until = time.monotonic() + PING_S
        try:
            self._send({"ping": number})
            while self._hear(until).get("pong") != number:
                pass
        except NoAnswerError:
            return False
        return True

    def _load(self, cells: list[str], withheld: Sequence[str], until: float) -> None:
        """Run the notebook; the answers that it checks are known after that."""
        try:
            self._send({"cells": cells, "withheld": list(withheld)})
            while "loaded" not in (message := self._hear(until)):
                if "answer" in message:
                    self.answers[str(message["answer"])] = self._answer(message)
                elif "problem" in message:
                    self.problems.append(_words(message["problem"]))
        except NoAnswerError as error:
            self.answers.clear()
            self.problems.append(str(error))

    def _answer(self, message: dict[str, Any]) -> Any:
        kind = message.get("kind")
        try:
            if kind == "value":
                return unpacked(message.get("value"))
        except CannotCrossError as error:
            return Foreign(str(error))
        if kind == "function":
            return Remote(self, str(message["answer"]), message)
        if kind == "none":
            return None
        return Foreign(f"a {str(message.get('title'))[:80]} cannot be passed between processes")

    def _send(self, message: Any) -> None:
        data = json.dumps(message).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._to.fileno(), data) :]
        except OSError as error:
            raise NoAnswerError("its process has ended") from error

    def _hear(self, until: float | None = None) -> dict[str, Any]:
        line = self._line(until)
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise NoAnswerError("an answer that is not JSON") from error
        if not isinstance(message, dict):
            raise NoAnswerError("an answer that is not an object")
        return message

    def _line(self, until: float | None) -> bytes:
        while b"\n" not in self._received:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not select.select([self._from], [], [], left)[0]:
                raise NoAnswerError("your notebook did not come to an end in time")
            piece = os.read(self._from.fileno(), 65_536)
            if not piece:
                raise NoAnswerError("its process has ended")
            self._received += piece
            if len(self._received) > LONGEST_BYTES:
                raise NoAnswerError("an answer that is too long")
        line, _, self._received = self._received.partition(b"\n")
        return line


class Foreign:
    """An answer that cannot cross the border, and why."""

    def __init__(self, why: str) -> None:
        self.why = why


def _called(
    kept: list[Callable[..., Any]], reply: dict[str, Any], errors: list[Exception]
) -> dict[str, Any]:
    """What a function of the trial, which the submission calls, returns or raises.

    What it raises is put into `errors`, and the submission gets an error of that kind with its
    number there.
    """
    try:
        function = kept[int(reply["call"])]
        arguments = [unpacked(each) for each in reply.get("arguments", ())]
    except (LookupError, TypeError, ValueError, CannotCrossError) as error:
        raise NoAnswerError(f"a call that cannot be made: {error}") from error
    try:
        return {"returned": packed(function(*arguments))}
    except Exception as error:  # noqa: BLE001
        # It goes through the submission's code, as in the learner's notebook, which may catch it.
        errors.append(error)
        return {"failed": [type(error).__name__, str(error), len(errors) - 1]}


def _raise(raised: Any, errors: Sequence[Exception]) -> None:
    """Raise what the submission raised: an error of the trial's own as it was."""
    kind = str(raised.get("kind")) if isinstance(raised, dict) else ""
    number = raised.get("failed") if kind else None
    if isinstance(number, int) and 0 <= number < len(errors):
        raise errors[number]
    if kind == "NotImplementedError":
        raise NotImplementedError
    raise RaisedThereError(_words(raised), str(raised.get("where")) if kind else "")


def _words(problem: Any) -> str:
    if not isinstance(problem, dict):
        return "an error that it does not describe"
    return f"{problem.get('kind')}: {problem.get('text')}".removesuffix(": ")[:600]
