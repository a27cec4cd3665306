"""Cases: hundreds of small questions beside a trial's stories, drawn where its rule has an edge.

    @exercise("quorums.lost", ..., like=is_lost, cases=Cases(draw_counts, is_lost, _RULE))

A story shows what a wrong answer leads to; but stories are few, and an answer may be right in them
by luck.  So after its trial each function is asked the same questions as one that is right, the
same ones on every machine; what is shown is the smallest question that it answers wrong.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from labkit.course.checking.draw import Draw, drawn, smallest

Function = Callable[..., Any]
Arguments = tuple[Any, ...]
COUNT = 400
_LONGEST = 160


@dataclass(frozen=True, slots=True)
class Asked:
    """What the learner's function was asked, what it said, and what is right."""

    call: str
    answer: object
    right: object

    def __str__(self) -> str:
        return (
            f"Your function was asked {self.call}.\n"
            f"  It said {shown(self.answer)}; right is {shown(self.right)}."
        )


def as_it_is(_arguments: Arguments, answer: Any) -> Any:
    """What counts of an answer, where all of it does."""
    return answer


def in_any_order(_arguments: Arguments, answer: Any) -> Any:
    """What counts of an answer, where it is a list and its order says nothing."""
    return sorted(answer)


def directly(function: Function, *arguments: Any) -> Any:
    """Ask a function with the case's parts as its arguments."""
    return function(*arguments)


def call_of(name: str, arguments: Arguments) -> str:
    """A call as it is written."""
    return f"{name}({', '.join(map(shown, arguments))})"


@dataclass(frozen=True, slots=True)
class Cases:
    """What to ask, and how to judge the answer.

    draw: makes the arguments of one question that can happen; right: what is right there; rule:
    what a wrong answer breaks, in words or as a function of arguments and answer; counts: what of
    an answer counts; ask: how a question is put, if not as a call; words: the
    question as it is shown, if not as a call; seed: of the drawing, from 1 on.
    """

    draw: Callable[[Draw], Arguments]
    right: Function
    rule: str | Callable[[Arguments, Any], str]
    counts: Callable[[Arguments, Any], Any] = as_it_is
    ask: Function = directly
    words: Callable[[Arguments], str] | None = None
    count: int = COUNT
    seed: int = 1

    def wrong(self, learner: Function, name: str) -> tuple[str, Asked] | None:
        """The broken rule and the smallest question that is answered wrong; None if all are right.

        Raises what the learner's function raises.
        """

        def is_wrong(arguments: Arguments) -> bool:
            answer = self.ask(learner, *deepcopy(arguments))
            right = self._right(arguments)
            return bool(self.counts(arguments, answer) != self.counts(arguments, right))

        for arguments, numbers in drawn(self.draw, self.count, self.seed):
            if is_wrong(arguments):
                least = smallest(self.draw, numbers, is_wrong)
                answer = self.ask(learner, *deepcopy(least))
                call = self.words(least) if self.words else call_of(name, least)
                return self.rule_broken_by(least, answer), Asked(call, answer, self._right(least))
        return None

    def rule_broken_by(self, arguments: Arguments, answer: Any) -> str:
        """What this wrong answer breaks, in words."""
        return self.rule if isinstance(self.rule, str) else self.rule(arguments, answer)

    def _right(self, arguments: Arguments) -> Any:
        return self.ask(self.right, *deepcopy(arguments))


class WrongCalls:
    """Those of a trial's calls that were answered wrong."""

    def __init__(self, cases: Cases, name: str) -> None:
        self._cases, self._name = cases, name
        self._first: dict[str, Asked] = {}
        """By the rule that the answer breaks."""

    def listen(self, arguments: Arguments, answer: Any) -> None:
        """What the learner's function was asked and said."""
        cases = self._cases
        if cases.ask is not directly:
            return
        right = cases.right(*deepcopy(arguments))
        if cases.counts(arguments, answer) != cases.counts(arguments, right):
            asked = Asked(call_of(self._name, arguments), answer, right)
            self._first.setdefault(cases.rule_broken_by(arguments, answer), asked)

    def breaking(self, rule: str) -> Asked | None:
        """The first that broke this rule, or any: a function can be wrong in two ways, and the run
        that is shown is about one of them.
        """
        return self._first.get(rule) or next(iter(self._first.values()), None)


def shown(value: object) -> str:
    """A value as a card shows it: bytes as numbers, sets in order, nothing too long."""
    if isinstance(value, set | frozenset):
        text = "{" + ", ".join(map(shown, sorted(value))) + "}" if value else "set()"
    elif isinstance(value, bytes) and len(value) > 8:
        text = f"{len(value)} bytes: {value[:8].hex(' ')} ..."
    elif isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        inside = ", ".join(map(shown, value)) + "," * (isinstance(value, tuple) and len(value) == 1)
        text = f"[{inside}]" if isinstance(value, list) else f"({inside})"
    elif is_dataclass(value) and type(value).__str__ is object.__str__:
        inside = ", ".join(shown(getattr(value, each.name)) for each in fields(value))
        text = f"{type(value).__name__}({inside})"
    elif isinstance(value, Enum):
        text = value.name
    elif is_dataclass(value):
        text = str(value)
    else:
        text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
