"""The judge's end of the pipes to the sandbox.

    with SubmissionConnection(cells, limits) as connection:
        connection.answers["quorums.write_set"]     a `Remote`, called like the function itself

A trial, which is a forked copy of the judge (`labkit.course.checking.forked_check`), uses the same
pipes. Meanwhile, the judge itself only waits for the trial, and kills it if it takes too long.
"""

import itertools
import math
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from inspect import Parameter, Signature
from subprocess import TimeoutExpired
from typing import Any, Self

from labkit.course.checking.exercise import RaisedThereError
from labkit.course.checking.forked_check import in_forked_copy
from labkit.course.grading.isolation.channel import ChannelError, PipeChannel
from labkit.course.grading.isolation.sandbox import (
    MAX_SLOWDOWN,
    Limits,
    processor_s_of,
    start_process,
)
from labkit.course.grading.isolation.submission_process import (
    MAX_REQUEST_BYTES,
    MAX_RESPONSE_BYTES,
    CellUnfinishedError,
)
from labkit.course.grading.values import EncodingError, decode_value, encode_value
from labkit.system.model.missing_part import MissingPart

_KILLED = (-9, 128 + 9)
"""Return codes after SIGKILL, which Windows does not define: the process's own, and the code of
bubblewrap, which runs the process.
"""
MAX_ANSWERS = 500
"""Limit on the checks and errors that a notebook may report while it is loaded."""
PING_S = 2.0
_KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)
"""Parameter kinds, indexed by their numbers in `inspect`."""


class SubmissionProcessError(Exception):
    """Raised if the submission's process has exited, or has sent something that the judge does not
    understand.
    """


@dataclass(frozen=True, slots=True)
class UnsupportedAnswer:
    """An answer that cannot be passed between processes, with the reason."""

    why: str


@dataclass(frozen=True, slots=True)
class Packed:
    """An answer that is a value, which is still encoded.

    Decoding may take a long time, because a student may deliberately hand in a set of numbers that
    is slow to decode. The value is therefore decoded by the trial, which has a time limit.
    """

    form: Any

    def value(self) -> Any:
        """Decode the value. Raises `EncodingError` if the encoded form is invalid."""
        return decode_value(self.form)


class Remote:
    def __init__(
        self, connection: "SubmissionConnection", name: str, described: dict[str, Any]
    ) -> None:
        self._connection, self._name = connection, name
        self.__name__ = str(described.get("title"))[:80]
        self.__module__ = "builtins"
        self.origin, self.file = (str(described.get(name))[:500] for name in ("origin", "file"))
        signed = _signature(described.get("parameters"))
        if signed is not None:
            self.__signature__ = signed

    @property
    def is_labkits(self) -> bool:
        """Whether labkit defines the function, according to the submission's process."""
        return self.origin.split(".")[0] == "labkit" or "/labkit/" in self.file

    def __call__(self, *arguments: Any) -> Any:
        try:
            return self._connection.ask(self._name, arguments)
        except (SubmissionProcessError, EncodingError) as error:
            raise RaisedThereError(str(error), self.__name__) from None


def _signature(parameters: Any) -> Signature | None:
    """Return the function's signature as reported by the submission, or None if it is invalid."""
    try:
        return Signature(
            [
                Parameter(name, _KINDS[kind], default=None if has_default else Parameter.empty)
                for name, kind, has_default in parameters
            ]
        )
    except (ValueError, TypeError, LookupError):
        return None


class SubmissionConnection:
    def __init__(
        self, cells: list[str], limits: Limits, blocked_answers: Sequence[str] = ()
    ) -> None:
        """Start the process and run the notebook. Raises `MissingPart` if the process does not
        start.
        """
        self.answers: dict[str, UnsupportedAnswer | Packed | Remote | None] = {}
        self.problems: list[str] = []
        self.is_loaded = False
        """Whether the notebook ran to completion."""
        self.is_unfinished = False
        """Whether a cell or the whole notebook did not end in time, although it used little
        processor time.
        """
        self._ids, self._limits = itertools.count(), limits
        with ExitStack() as stack:
            until = time.monotonic() + MAX_SLOWDOWN * limits.load_s
            self._process = process = stack.enter_context(start_process(limits))
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            self._channel = PipeChannel(
                process.stdout.fileno(),
                process.stdin.fileno(),
                max_in_bytes=MAX_RESPONSE_BYTES,
                max_out_bytes=MAX_REQUEST_BYTES,
            )
            try:
                # Wait for "ready", which is sent before any of the submission's code runs.
                self._hear(until)
            except SubmissionProcessError as error:
                process.kill()
                errors = os.read(process.stderr.fileno(), 2000).decode(errors="replace")
                output = errors.strip()[-300:]
                raise MissingPart(
                    "sandbox",
                    f"the process for a submission did not start: {output or error}",
                    "run `labkit doctor`",
                ) from None
            process.stderr.close()
            self._load(cells, blocked_answers, until)
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def ask(self, name: str, arguments: tuple[Any, ...]) -> Any:
        """Return the result of calling the submission's answer with these arguments.

        Raises `RaisedThereError` or `NotImplementedError` if the function raises an exception,
        `EncodingError` if the arguments or the result cannot be encoded, and
        `SubmissionProcessError` if the process does not respond as it should.
        """
        callbacks: list[Callable[..., Any]] = []
        errors: list[Exception] = []

        def number_of(function: Callable[..., Any]) -> int:
            callbacks.append(function)
            return len(callbacks) - 1

        request = f"{name}:{next(self._ids)}"
        encoded = [encode_value(each, number_of) for each in arguments]
        self._send({"id": request, "name": name, "arguments": encoded})
        while True:
            reply = self._hear()
            if "call" in reply:
                self._send(_call_back(callbacks, reply, errors))
            elif reply.get("id") != request:
                raise SubmissionProcessError("it responded to a different request")
            elif "raised" in reply:
                _raise(reply["raised"], errors)
            else:
                return decode_value(reply.get("returned"))

    def run_trial(self, trial: Callable[[Any], Any], answer: Any) -> Any:
        """Run `trial(answer)` in a forked copy of this process, within the submission's limits.

        The processor time that the submission's process uses counts too. Returns the same values as
        `in_forked_copy`.
        """
        return in_forked_copy(
            trial,
            answer,
            self._limits.exercise_s,
            wall_s=self._limits.elapsed_s,
            processor_s=lambda copy: processor_s_of(copy) + processor_s_of(self._process.pid),
        )

    def was_killed(self) -> bool:
        """Return whether the process was killed, for example by the kernel because memory ran
        out.
        """
        if self.is_responsive():
            return False
        with suppress(TimeoutExpired):
            return self._process.wait(PING_S) in _KILLED
        return False

    def is_responsive(self) -> bool:
        """Return whether the process responds to a ping. If it responds, no earlier call is still
        running.
        """
        number = next(self._ids)
        until = time.monotonic() + PING_S
        try:
            self._send({"ping": number}, until)
            while self._hear(until).get("pong") != number:
                pass
        except SubmissionProcessError:
            return False
        return True

    def _load(self, cells: list[str], blocked_answers: Sequence[str], until: float) -> None:
        try:
            self._send({"cells": cells, "blocked_answers": list(blocked_answers)}, until)
            for _ in range(MAX_ANSWERS):
                message = self._hear(until)
                if "loaded" in message:
                    self.is_loaded = True
                    return
                if "answer" in message:
                    self.answers[str(message["answer"])[:100]] = self._answer(message)
                elif "problem" in message:
                    problem = message["problem"]
                    self.problems.append(_words(problem))
                    if isinstance(problem, dict):
                        self.is_unfinished |= problem.get("kind") == CellUnfinishedError.__name__
            raise SubmissionProcessError(f"it reported more than {MAX_ANSWERS} checks and errors")
        except SubmissionProcessError as error:
            self.answers.clear()
            self.problems.append(str(error))
            is_late = time.monotonic() >= until
            used_s = processor_s_of(self._process.pid)
            self.is_unfinished = is_late and used_s <= self._limits.load_s

    def _answer(self, message: dict[str, Any]) -> UnsupportedAnswer | Packed | Remote | None:
        kind = message.get("kind")
        if kind == "value":
            return Packed(message.get("value"))
        if kind == "function":
            return Remote(self, str(message["answer"]), message)
        if kind == "none":
            return None
        return UnsupportedAnswer(
            f"a {str(message.get('title'))[:80]} cannot be passed between processes"
        )

    def _send(self, message: Any, until: float = math.inf) -> None:
        try:
            self._channel.send(message, until)
        except (ChannelError, ValueError) as error:
            raise SubmissionProcessError(str(error)) from error

    def _hear(self, until: float = math.inf) -> dict[str, Any]:
        try:
            return self._channel.receive(until)
        except ChannelError as error:
            raise SubmissionProcessError(str(error)) from error


def _call_back(
    callbacks: list[Callable[..., Any]], reply: dict[str, Any], errors: list[Exception]
) -> dict[str, Any]:
    """Call one of the trial's functions for the submission, and return a message with the outcome.

    If the function raises an exception, the exception is appended to `errors`, and the submission
    raises an exception of the same class that carries the index in this list.
    """
    try:
        function = callbacks[int(reply["call"])]
        arguments = [decode_value(each) for each in reply.get("arguments", ())]
    except (LookupError, TypeError, ValueError, EncodingError) as error:
        raise SubmissionProcessError(f"it sent an invalid call: {error}") from error
    try:
        return {"returned": encode_value(function(*arguments))}
    except Exception as error:  # noqa: BLE001
        # Raise the exception in the submission's code, which may catch it, as in the learner's
        # notebook.
        errors.append(error)
        return {"failed": [type(error).__name__, str(error), len(errors) - 1]}


def _raise(raised: Any, errors: Sequence[Exception]) -> None:
    """Raise the exception that the submission raised. If the exception came from the trial, raise
    the original one.
    """
    kind = str(raised.get("kind")) if isinstance(raised, dict) else ""
    number = raised.get("failed") if kind else None
    if isinstance(number, int) and 0 <= number < len(errors):
        raise errors[number]
    if kind == "NotImplementedError":
        raise NotImplementedError
    raise RaisedThereError(_words(raised), str(raised.get("where")) if kind else "")


def _words(problem: Any) -> str:
    if not isinstance(problem, dict):
        return "an unknown error"
    words = f"{problem.get('kind')}: {problem.get('text')}".removesuffix(": ")[:600]
    if cell := problem.get("cell"):
        words += f", in the cell that begins with `{str(cell)[:60]}`"
    return words
