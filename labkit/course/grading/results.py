"""The result of grading an answer, as strings short enough to be stored in any report.

An answer is refused only if the answer itself is the cause: its trial broke a rule, or it exceeded
a limit on processor time or memory. If the cause may be the machine (elapsed time, a process that
was killed or could not be started, missing software), the answer is not graded.
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

    exercise: its name; or `WHOLE`, followed by the name of a file, if the file or the whole
        submission has no results
    outcome: passed, refused, open, not graded, or not handed in
    message: the rule that was broken
    asked, counterexample: as text, "" if there are none
    picture: the counterexample as HTML
    link: the link to the counterexample if it is a simulated run, without the student's code
    seconds: elapsed time of the trial
    variant: the seed of the generated cases, 1 for the lessons' own
    late: whether it was handed in after the deadline
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
        """Return the result with long strings truncated: they may contain a student's output."""
        for name, part in parts.items():
            if isinstance(part, str):
                parts[name] = _cut(storable(part), name)
        return cls(**parts)


WHOLE = "-"


def is_exercise(name: str) -> bool:
    """Return whether a result with this name is for an exercise, not for a file or a submission."""
    return not name.startswith(WHOLE)


def _cut(text: str, name: str) -> str:
    most = _MAX_LENGTHS.get(name, _MAX_TEXT)
    if len(text) <= most:
        return text
    # A truncated picture or link is useless.
    return "" if name in ("picture", "link") else text[: most - 3] + "..."


def storable(text: str) -> str:
    """Replace lone surrogates, which JSON and Python strings can contain but UTF-8 cannot, with
    "?".
    """
    return text.encode("utf-8", "replace").decode("utf-8")


KILLED = "The process was killed, probably because the machine ran out of memory. Grade it again."


def without_verdict(stopped: Stopped | None, limits: Limits) -> tuple[str, str]:
    """Return the outcome and the message for a trial that returned no verdict."""
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
