"""results: how an answer went, in words of bounded length that every report can hold."""

from dataclasses import dataclass
from typing import Any, Self

PASSED, REFUSED, OPEN, NOT_GRADED = "passed", "refused", "open", "not graded"
_LONGEST = {"picture": 1 << 20, "counterexample": 8000}
_LONGEST_TEXT = 2000


@dataclass(frozen=True, slots=True)
class Result:
    """How a student's answer to one exercise went.

    outcome: passed, refused, open or not graded; message: the rule that broke; asked and
    counterexample: in words, "" if there are none; picture: the counterexample as HTML; seconds:
    wall-clock time of the trial; variant: the seed of the generated cases, 1 for the lessons' own.
    """

    student: str
    exercise: str
    outcome: str
    message: str
    asked: str = ""
    counterexample: str = ""
    picture: str = ""
    seconds: float = 0.0
    variant: int = 1

    @classmethod
    def bounded(cls, **parts: Any) -> Self:
        """A result of these parts, whose texts may hold whatever a student's code produced."""
        for name, part in parts.items():
            if isinstance(part, str):
                parts[name] = _cut(storable(part), name)
        return cls(**parts)


def _cut(text: str, name: str) -> str:
    most = _LONGEST.get(name, _LONGEST_TEXT)
    if len(text) <= most:
        return text
    # Half a picture is none.
    return "" if name == "picture" else text[: most - 3] + "..."


def storable(text: str) -> str:
    """A text that UTF-8 can hold: "?" for each half of a surrogate pair, which JSON and Python's
    strings can hold.
    """
    return text.encode("utf-8", "replace").decode("utf-8")
