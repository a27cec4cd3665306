"""Defines `check`, which runs the learner's object inside the real system and reports the result on
a card.

Whatever the learner's code does, `check` returns a card. If the code raises an exception, the card
shows the line that raised it. An endless loop is stopped after `STEPS` bytecode instructions of the
learner's own code; because instructions are counted instead of seconds, every machine shows the
same card. Code that executes no instructions, such as a sleep, is stopped by a timer
(`forked_check`).
"""

import linecache
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from traceback import walk_tb
from types import FrameType, TracebackType
from typing import Any

from labkit.course.checking.card import Card, CardState
from labkit.course.checking.exercise import Exercise, RaisedThereError, find
from labkit.course.checking.forked_check import CAN_FORK, Reason, Stopped, in_forked_copy
from labkit.course.checking.parameters import case_seed
from labkit.course.checking.progress import progress_line
from labkit.course.checking.refused import Refused, raised_words
from labkit.system.model.missing_part import MissingPart
from labkit.views.widgets.view import NBGRADER

STEPS = 20_000_000
"""Bytecode instructions: about two million lines of code, or a few seconds."""


class RanTooLongError(BaseException):
    """Raised if the learner's code runs for too long.

    This class is not derived from `Exception`, so it also ends a loop that catches every
    `Exception`.
    """


class NotPassedError(Exception):
    """Raised if an exercise that must be passed is still open or was refused; `card` says why."""

    def __init__(self, card: Card) -> None:
        super().__init__(repr(card))
        self.card = card


def check(name: str, learner: Any, must_pass: bool | None = None) -> Card:
    """Run the learner's object in the exercise and return the result as a card.

    The exercise stays open if `learner` is None or raises NotImplementedError. Raises
    `NotPassedError` if the exercise is not passed and either `must_pass` is true, the environment
    variable LABKIT_CHECKS is "must-pass", or nbgrader is validating or grading the notebook; the
    error makes papermill or a build fail. Raises `NoSuchExerciseError` for an unknown name.
    """
    exercise = find(name).with_cases_of(case_seed())
    with progress_line(name):
        card = _open_card(name) if learner is None else _judge(exercise, learner)
    if must_pass is None:
        must_pass = must_pass_by_default()
    if must_pass and not card.passed:
        raise NotPassedError(card)
    return card


ENVIRONMENT, MUST_PASS = "LABKIT_CHECKS", "must-pass"


def must_pass_by_default() -> bool:
    return os.environ.get(ENVIRONMENT) == MUST_PASS or NBGRADER in os.environ


LIMIT_S = 30.0
"""Time limit for all calls of the learner's function in one check; correct answers take less than a
second.
"""

SPARK_LIMIT_S = 300.0
"""Time limit for a trial with Spark, which cannot run in a forked copy of this process."""


def _judge(exercise: Exercise, learner: Any) -> Card:
    if CAN_FORK and not exercise.needs_spark:
        card: Card | Stopped | None = in_forked_copy(
            partial(_card_or_none, exercise), learner, LIMIT_S
        )
        if isinstance(card, Stopped):
            return _stopped_card(exercise.name, card)
        if card is not None:
            return card
    with _alarm():
        return card_of(exercise, learner)


@contextmanager
def _alarm() -> Iterator[None]:
    """Interrupt sleeping code in the main thread, on systems that have SIGALRM."""
    if not hasattr(signal, "setitimer") or threading.current_thread() != threading.main_thread():
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise RanTooLongError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, SPARK_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _card_or_none(exercise: Exercise, learner: Any) -> Card | None:
    """Return the card, or None if the trial itself raises an exception; the parent process then
    runs the trial again.
    """
    try:
        return card_of(exercise, learner)
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001
        return None


def card_of(exercise: Exercise, learner: Any) -> Card:
    """Judge the answer in this process, and return its card. Exceptions raised by the trial itself
    are propagated.
    """
    name, module = exercise.name, getattr(learner, "__module__", "__main__")
    refuse = partial(Card, name, CardState.REFUSED)
    try:
        with instruction_limit(module):
            message = exercise.run(learner)
    except NotImplementedError:
        return _open_card(name)
    except Refused as refused:
        return refuse(refused.message, refused.counterexample, refused.asked)
    except RaisedThereError as error:
        there = f" in {error.where}" if error.where else ""
        return refuse(f"Your code raised {error.problem}{there}.")
    except RanTooLongError as error:
        where = _learners_line(error.__traceback__, module)
        return refuse(f"{ENDLESS} it was last in {where}.")
    except SystemExit as error:
        return refuse(f"{ENDS} in {_learners_line(error.__traceback__, module)}.")
    except MissingPart:
        # The machine lacks something that the exercise needs, which is not the learner's fault.
        raise
    except Exception as error:
        where = _learners_line(error.__traceback__, module)
        if where is None and module != "builtins":
            raise
        where = where or learner.__name__  # A built-in function, such as max, has no source lines.
        return refuse(raised_words(error, where))
    return Card(name, CardState.PASSED, message)


ENDLESS = "Your code does not terminate;"
ENDS = "Your code ends the whole program"
NO_MEMORY = "With your code, the check exceeds its memory limit"


def _stopped_card(name: str, stopped: Stopped) -> Card:
    if stopped.reason is Reason.LATE:
        where = stopped.where or "a function that is not written in Python"
        problem = f"{ENDLESS} after {LIMIT_S:.0f} s it was last in {where}"
    else:
        problem = ENDS if stopped.reason is Reason.ENDED else NO_MEMORY
    return Card(name, CardState.REFUSED, f"{problem}.")


def _open_card(name: str) -> Card:
    return Card(
        name,
        CardState.OPEN,
        f'Write your answer first; hint("{name}") gives up to three hints.',
    )


def _learners_line(traceback: TracebackType | None, module: str) -> str | None:
    """Return the last line of the learner's own code in the traceback, or None if the traceback
    contains no such line.
    """
    lines = [
        (frame.f_code.co_filename, number, frame.f_code.co_name)
        for frame, number in walk_tb(traceback)
        if frame.f_globals.get("__name__") == module
    ]
    if not lines:
        return None
    file, number, function = lines[-1]
    return f"{function}, line {number}: {linecache.getline(file, number).strip()}"


@contextmanager
def instruction_limit(module: str) -> Iterator[None]:
    """Stop the learner's code after `STEPS` bytecode instructions."""
    left = STEPS

    def count(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal left
        if event == "opcode":
            left -= 1
            if left < 0:
                raise RanTooLongError
        return count

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        if frame.f_globals.get("__name__") != module:
            return None
        # Trace instructions, not lines: a one-line loop never reaches another line.
        frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes = count, False, True
        return count

    before, before_in_threads = sys.gettrace(), threading.gettrace()
    # Python 3.12 traces instructions only if some frame requests them when tracing starts.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(enter)
    # In a notebook the simulated world runs in a separate thread.
    threading.settrace(enter)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(before_in_threads)
