"""The result of grading an answer. Its strings are short enough to be stored in any report.

An answer is refused only if the answer itself is the cause, that is, if it broke a rule or exceeded
a limit on processor time or memory. If the machine may be the cause (because a limit on elapsed
time was exceeded, a process was killed or could not be started, or software is missing), the answer
is not graded.
"""

from dataclasses import dataclass
from typing import Any, Self

from labkit.course.checking.forked_check import Reason, Stopped
from labkit.course.grading.isolation.sandbox import Limits

PASSED, REFUSED, OPEN, NOT_GRADED = "passed", "refused", "open", "not graded"
NOT_HANDED_IN = "not handed in"
_MAX_LENGTHS = {"picture": 1 << 20, "counterexample": 8000, "link": 8000}
_MAX_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one student's answer to one exercise.

    exercise: the name of the exercise; if the whole submission has no results, `WHOLE`, and if a
        file has no results, `WHOLE` followed by the name of the file
    outcome: passed, refused, open, not graded, or not handed in
    message: the rule that was broken
    asked, counterexample: as text, or "" if they are missing
    picture: the counterexample as HTML
    link: the link to the counterexample, without the student's code, if the counterexample is a
        simulated run
    seconds: elapsed time of the trial
    variant: the seed of the generated cases, which is 1 for the lessons' own cases
    late: whether the answer was handed in after the deadline
    """

    student: str
    exercise: str
    outcome: str
    message: str
    asked: str = ""
    counterexample: str = ""
    picture: str = ""
    link: str = ""
    seconds: float = 0.0
    variant: int = 1
    late: bool = False

    @classmethod
    def bounded(cls, **parts: Any) -> Self:
        """Return the result with long strings truncated, because the strings may contain a
        student's output.
        """
        for name, part in parts.items():
            if isinstance(part, str):
                parts[name] = _cut(storable(part), name)
        return cls(**parts)


WHOLE = "-"


def is_exercise(name: str) -> bool:
    """Return whether a result with this name is about an exercise rather than about a file or a
    submission.
    """
    return not name.startswith(WHOLE)


def _cut(text: str, name: str) -> str:
    most = _MAX_LENGTHS.get(name, _MAX_TEXT)
    if len(text) <= most:
        return text
    # A truncated picture or link is useless.
    return "" if name in ("picture", "link") else text[: most - 3] + "..."


def storable(text: str) -> str:
    """Replace lone surrogates with "?", because JSON and Python strings can contain them but UTF-8
    cannot.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


KILLED = "The process was killed, probably because the machine ran out of memory. Grade it again."


def without_verdict(stopped: Stopped | None, limits: Limits) -> tuple[str, str]:
    """Return the outcome and the message for a trial that reached no verdict."""
    reason = None if stopped is None else stopped.reason
    if stopped is not None and stopped.is_killed:
        return NOT_GRADED, KILLED
    if reason is Reason.UNFINISHED:
        # Either the code sleeps, or the machine is too busy; labkit cannot tell which.
        return NOT_GRADED, (
            f"The trial did not end within {limits.elapsed_s:g} s, although the code used less than"
            f" {limits.exercise_s:g} s of processor time. Grade it again on an idle machine."
        )
    if reason is Reason.LATE:
        why = f"The code does not terminate within {limits.exercise_s:g} s of processor time."
    elif reason is Reason.MEMORY:
        why = "With this answer, the trial exceeds its memory limit."
    else:
        why = "The trial ended without a verdict."
    return REFUSED, why
