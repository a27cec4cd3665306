"""Cases: hundreds of small questions beside a trial's stories, drawn where its rule has an edge.

    @exercise("quorums.lost", ..., like=is_lost, cases=Cases(draw_counts, is_lost, _RULE))

A story shows what a wrong answer leads to; but stories are few, and an answer may be right in them
by luck.  So after its trial each function is asked the same questions as one that is right, the
same ones on every machine; what is shown is the smallest question that it answers wrong.
"""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import partial
from typing import Any

from labkit.course.checking.card import picture_of
from labkit.course.checking.draw import Draw, drawn, smallest
from labkit.views.widgets.view import StillPicture, View

Function = Callable[..., Any]
Arguments = tuple[Any, ...]
COUNT = 400
_LONGEST = 160


Picture = View | StillPicture | None


def _no_picture() -> Picture:
    return None


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A call of the learner's function that was answered wrong, and what is right.

    why: what the question shows; picture: draws it.
    """

    call: str
    answer: object
    right: object
    why: str = ""
    picture: Callable[[], Picture] = field(default=_no_picture, compare=False, repr=False)

    def __str__(self) -> str:
        said = f"  It said {shown(self.answer)}; right is {shown(self.right)}."
        return f"Your function was asked {self.call}.\n{said} {self.why}".rstrip()

    def view(self) -> Picture:
        """Draw the question; None if nothing is drawn."""
        return self.picture()

    def _repr_html_(self) -> str:
        drawn = self.view()
        still = drawn._repr_html_() if isinstance(drawn, StillPicture) else ""
        return picture_of(str(self)) + still


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
    an answer counts; ask: how a question is put, if not as a call; words: the question as it is
    shown, if not as a call; why: what a question shows; picture: draws a question and its answer;
    first: ask before the stories, which then cannot tell more; of_runs: the rules that a refused
    story shows in the place of its own, if a call broke one; seed: of the drawing, from 1 on.
    """

    draw: Callable[[Draw], Arguments]
    right: Function
    rule: str | Callable[[Arguments, Any], str]
    counts: Callable[[Arguments, Any], Any] = as_it_is
    ask: Function = directly
    words: Callable[[Arguments], str] | None = None
    why: Callable[[Arguments], str] | None = None
    picture: Callable[[Arguments, Any], Picture] | None = None
    first: bool = False
    of_runs: tuple[str, ...] = ()
    count: int = COUNT
    seed: int = 1

    def wrong(self, learner: Function, name: str) -> tuple[str, WrongAnswer] | None:
        """The broken rule and the smallest question that is answered wrong; None if all are right.

        Raises what the learner's function raises.
        """

        def is_wrong(arguments: Arguments) -> bool:
            return self.is_wrong(arguments, self.ask(learner, *deepcopy(arguments)))

        for arguments, numbers in drawn(self.draw, self.count, self.seed):
            if is_wrong(arguments):
                least = smallest(self.draw, numbers, is_wrong)
                answer = self.ask(learner, *deepcopy(least))
                return self.rule_broken_by(least, answer), self.shown(name, least, answer)
        return None

    def is_wrong(self, arguments: Arguments, answer: Any) -> bool:
        """Whether this answer is not what is right, as far as it counts."""
        right = self._right(arguments)
        return bool(self.counts(arguments, answer) != self.counts(arguments, right))

    def rule_broken_by(self, arguments: Arguments, answer: Any) -> str:
        """What this wrong answer breaks, in words."""
        return self.rule if isinstance(self.rule, str) else self.rule(arguments, answer)

    def shown(self, name: str, arguments: Arguments, answer: Any) -> WrongAnswer:
        """A wrong answer as a card shows it."""
        call = self.words(arguments) if self.words else call_of(name, arguments)
        why = self.why(arguments) if self.why else ""
        picture = partial(self.picture, arguments, answer) if self.picture else _no_picture
        return WrongAnswer(call, answer, self._right(arguments), why, picture)

    def _right(self, arguments: Arguments) -> Any:
        return self.ask(self.right, *deepcopy(arguments))


class WrongCalls:
    """The calls of a trial that the learner's function answered incorrectly."""

    def __init__(self, cases: Cases, name: str) -> None:
        self._cases, self._name = cases, name
        self._first: dict[str, WrongAnswer] = {}
        """The first wrong answer for each rule, the most recently broken rule last."""

    def listen(self, arguments: Arguments, answer: Any) -> None:
        """Take a call of the learner's function and what it returned."""
        cases = self._cases
        if cases.ask is directly and cases.is_wrong(arguments, answer):
            rule = cases.rule_broken_by(arguments, answer)
            known = self._first.pop(rule, None)
            self._first[rule] = known or cases.shown(self._name, arguments, answer)

    def breaking(self, rule: str) -> tuple[str, WrongAnswer] | None:
        """Return this rule and the first call that broke it.

        If no call broke it, return the rule that was broken most recently, because the run that is
        shown ends there, and the first call that broke that one.  Rules that a run can break have
        precedence.
        """
        if rule in self._first:
            return rule, self._first[rule]
        last = list(reversed(self._first.items()))
        of_runs = [each for each in last if each[0] in self._cases.of_runs]
        return next(iter(of_runs + last), None)


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
