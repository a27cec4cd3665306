"""border: the grader's end of the pipe.

    with Border(cells, limits) as border:
        border.answers["quorums.write_set"]     a `Remote`, which is called like the function itself

A trial in a forked copy of the grader (`labkit.course.checking.forked_check`) uses the same pipes:
while it runs, the grader itself waits, and ends the copy that takes too long.
"""

import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from inspect import Parameter, Signature
from types import TracebackType
from typing import Any, Self

from labkit.course.checking.exercise import RaisedThereError
from labkit.course.grading.isolation.channel import ChannelError, PipeChannel
from labkit.course.grading.isolation.inside import MOST_ASKED, MOST_SAID
from labkit.course.grading.isolation.sandbox import Limits, pipes, started
from labkit.course.grading.values import CannotCrossError, packed, unpacked
from labkit.system.model.missing_part import MissingPart

MOST_ANSWERS = 500
"""Checks and errors that a notebook may report while it is loaded."""
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


@dataclass(frozen=True, slots=True)
class Foreign:
    """An answer that cannot cross the border, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class Packed:
    """An answer that is a value, as it was sent.

    To unpack it can take long: a set of a stranger's numbers may be slow on purpose.  So the trial
    does it, within its limits.
    """

    form: Any

    def value(self) -> Any:
        """The value.  Raises `CannotCrossError`."""
        return unpacked(self.form)


class Remote:
    """A function of the submission, called across the border."""

    def __init__(self, border: "Border", name: str, described: dict[str, Any]) -> None:
        self._border, self._name = border, name
        self.__name__ = str(described.get("title"))[:80]
        self.__module__ = "builtins"
        self.origin, self.file = (str(described.get(name))[:500] for name in ("origin", "file"))
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
        """Start the process and run the notebook.  Raises `MissingPart` if it does not start."""
        self.answers: dict[str, Foreign | Packed | Remote | None] = {}
        self.problems: list[str] = []
        self.is_loaded = False
        """Whether the notebook came to its end."""
        self._ids = itertools.count()
        with ExitStack() as stack:
            until = time.monotonic() + limits.load_s
            process = stack.enter_context(started(limits, is_shut_in))
            writer, reader, errors = pipes(process)
            self._channel = PipeChannel(
                reader.fileno(), writer.fileno(), most_in=MOST_SAID, most_out=MOST_ASKED
            )
            try:
                self._hear(until)  # that it is ready: none of the submission's code ran yet
            except NoAnswerError as error:
                process.kill()
                said = os.read(errors.fileno(), 2000).decode(errors="replace").strip()[-300:]
                raise MissingPart(
                    "sandbox",
                    f"the process for a submission did not start: {said or error}",
                    "run `labkit doctor`",
                ) from None
            errors.close()
            self._load(cells, withheld, until)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()

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
            self._send({"ping": number}, until)
            while self._hear(until).get("pong") != number:
                pass
        except NoAnswerError:
            return False
        return True

    def _load(self, cells: list[str], withheld: Sequence[str], until: float) -> None:
        """Run the notebook; the answers that it checks are known after that."""
        try:
            self._send({"cells": cells, "withheld": list(withheld)}, until)
            for _ in range(MOST_ANSWERS):
                message = self._hear(until)
                if "loaded" in message:
                    self.is_loaded = True
                    return
                if "answer" in message:
                    self.answers[str(message["answer"])[:100]] = self._answer(message)
                elif "problem" in message:
                    self.problems.append(_words(message["problem"]))
            raise NoAnswerError(f"it reports more than {MOST_ANSWERS} checks and errors")
        except NoAnswerError as error:
            self.answers.clear()
            self.problems.append(str(error))

    def _answer(self, message: dict[str, Any]) -> Foreign | Packed | Remote | None:
        kind = message.get("kind")
        if kind == "value":
            return Packed(message.get("value"))
        if kind == "function":
            return Remote(self, str(message["answer"]), message)
        if kind == "none":
            return None
        return Foreign(f"a {str(message.get('title'))[:80]} cannot be passed between processes")

    def _send(self, message: Any, until: float = math.inf) -> None:
        try:
            self._channel.send(message, until)
        except (ChannelError, ValueError) as error:
            raise NoAnswerError(str(error)) from error

    def _hear(self, until: float = math.inf) -> dict[str, Any]:
        try:
            return self._channel.receive(until)
        except ChannelError as error:
            raise NoAnswerError(str(error)) from error


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
