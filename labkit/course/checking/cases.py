"""Generated test cases: hundreds of small calls, most of which test the edge cases of a rule.

    @exercise("quorums.lost", ..., like=is_lost, cases=Cases(draw_counts, is_lost, _RULE))

A trial's runs show the consequences of a wrong answer, but a trial has so few runs that a wrong
answer may pass by luck. After the trial, the learner's function is therefore compared with a
correct one on generated cases, which are the same on every machine. The smallest failing case is
shown.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from functools import partial
from inspect import isfunction
from typing import Any

from labkit.course.checking.card import picture_of
from labkit.course.checking.generated_cases import Draw, generated_cases, smallest_failing_case
from labkit.views.widgets.view import StillPicture, View

Function = Callable[..., Any]
Arguments = tuple[Any, ...]
COUNT = 400
_MAX_CHARACTERS, _MAX_SHOWN_BYTES = 160, 8


Picture = View | StillPicture | None


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A call of the learner's function that returned a wrong result, together with the correct
    result.

    why: explains the case; picture: draws it.
    """

    call: str
    answer: object
    right: object
    why: str = ""
    picture: Callable[[], Picture] | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        answer, right = shown_apart(self.answer, self.right)
        said = f"  It returned {answer}; the right answer is {right}."
        return f"labkit called {self.call}.\n{said} {self.why}".rstrip()

    def view(self) -> Picture:
        return self.picture() if self.picture else None

    def _repr_html_(self) -> str:
        picture = self.view()
        still = picture._repr_html_() if isinstance(picture, StillPicture) else ""
        return picture_of(str(self)) + still


def whole_answer(_arguments: Arguments, answer: Any) -> Any:
    return answer


def in_any_order(_arguments: Arguments, answer: Any) -> Any:
    return sorted(answer)


def call_directly(function: Function, *arguments: Any) -> Any:
    return function(*arguments)


def format_call(name: str, arguments: Arguments) -> str:
    return f"{name}({', '.join(map(shown, arguments))})"


@dataclass(frozen=True, slots=True)
class Cases:
    """How to generate test cases and how to judge the answers.

    draw: generates the arguments of one realistic call
    right: the correct function
    rule: the rule that a wrong answer breaks, as text or as a function of the arguments and the
        answer
    comparable: extracts the part of an answer that is compared
    run_case: calls the function with the arguments of a case, possibly in several calls
    describe: formats a case; by default, a case is shown as a call
    explain: returns a sentence that explains a case
    picture: draws a case and its answer
    run_first: whether to run the cases before the trial's runs, because the runs reveal nothing
        that the cases do not reveal
    preferred_rules: if a call broke one of these rules, the card of a refused answer shows that
        rule instead of the rule that the run broke
    seed: seed of the generator, at least 1
    """

    draw: Callable[[Draw], Arguments]
    right: Function
    rule: str | Callable[[Arguments, Any], str]
    comparable: Callable[[Arguments, Any], Any] = whole_answer
    run_case: Function = call_directly
    describe: Callable[[Arguments], str] | None = None
    explain: Callable[[Arguments], str] | None = None
    picture: Callable[[Arguments, Any], Picture] | None = None
    run_first: bool = False
    preferred_rules: tuple[str, ...] = ()
    count: int = COUNT
    seed: int = 1

    def wrong(self, learner: Function, name: str) -> tuple[str, WrongAnswer] | None:
        """Return the broken rule and the smallest case with a wrong answer, or None if all answers
        are right.

        Exceptions raised by the learner's function are propagated, with a note about the call.
        """

        def is_wrong(arguments: Arguments) -> bool:
            try:
                answer = self.run_case(learner, *deepcopy(arguments))
            except Exception as error:
                error.add_note(self._about(name, arguments))
                raise
            return self.is_wrong(arguments, answer)

        for arguments, numbers in generated_cases(self.draw, self.count, self.seed):
            if is_wrong(arguments):
                least = smallest_failing_case(self.draw, numbers, is_wrong)
                answer = self.run_case(learner, *deepcopy(least))
                return self.rule_broken_by(least, answer), self.shown(name, least, answer)
        return None

    def is_wrong(self, arguments: Arguments, answer: Any) -> bool:
        """Return whether this answer differs from the correct one, according to `comparable`."""
        right = self._right(arguments)
        return bool(self.comparable(arguments, answer) != self.comparable(arguments, right))

    def rule_broken_by(self, arguments: Arguments, answer: Any) -> str:
        return self.rule if isinstance(self.rule, str) else self.rule(arguments, answer)

    def shown(self, name: str, arguments: Arguments, answer: Any) -> WrongAnswer:
        why = self.explain(arguments) if self.explain else ""
        picture = partial(self.picture, arguments, answer) if self.picture else None
        call = self._call(name, arguments)
        return WrongAnswer(call, answer, self._right(arguments), why, picture)

    def _call(self, name: str, arguments: Arguments) -> str:
        return self.describe(arguments) if self.describe else format_call(name, arguments)

    def _about(self, name: str, arguments: Arguments) -> str:
        why = self.explain(arguments) if self.explain else ""
        return f"labkit called {self._call(name, arguments)}. {why}".rstrip()

    def _right(self, arguments: Arguments) -> Any:
        return self.run_case(self.right, *deepcopy(arguments))


class WrongCalls:
    """Records the calls in a trial for which the learner's function returned a wrong answer."""

    def __init__(self, cases: Cases, name: str) -> None:
        self._cases, self._name = cases, name
        self._first: dict[str, WrongAnswer] = {}
        """The first wrong answer for each rule; the most recently broken rule is last."""

    def listen(self, arguments: Arguments, answer: Any) -> None:
        cases = self._cases
        if cases.run_case is call_directly and cases.is_wrong(arguments, answer):
            rule = cases.rule_broken_by(arguments, answer)
            earlier = self._first.pop(rule, None)
            self._first[rule] = earlier or cases.shown(self._name, arguments, answer)

    def breaking(self, rule: str) -> tuple[str, WrongAnswer] | None:
        """Return the given rule and the first call that broke it.

        If no call broke the given rule, return the most recently broken rule and the first call
        that broke it, because the run shown on the card ended when that rule was broken. Rules in
        `preferred_rules` take precedence.
        """
        if rule in self._first:
            return rule, self._first[rule]
        last = list(reversed(self._first.items()))
        preferred = [each for each in last if each[0] in self._cases.preferred_rules]
        return next(iter(preferred + last), None)


def shown(value: object) -> str:
    """Format a value for a card, with bytes in hexadecimal, sets sorted and long text truncated."""
    if isinstance(value, set | frozenset):
        text = "{" + ", ".join(map(shown, sorted(value))) + "}" if value else "set()"
    elif isinstance(value, bytes) and len(value) > _MAX_SHOWN_BYTES:
        text = f"{len(value)} bytes: {value[:_MAX_SHOWN_BYTES].hex(' ')} ..."
    elif isinstance(value, float):
        text = f"{value:.6g}"
    elif isinstance(value, dict):
        items = (f"{shown(key)}: {shown(each)}" for key, each in value.items())
        text = "{" + ", ".join(items) + "}"
    elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        text = _in_brackets(value, list(map(shown, value)))
    elif is_dataclass(value) and type(value).__str__ is object.__str__:
        parts = [getattr(value, each.name) for each in fields(value)]
        # Omit functions (for example, the one that computes a digest), because they tell the
        # learner nothing.
        inside = ", ".join(shown(part) for part in parts if not isfunction(part))
        text = f"{type(value).__name__}({inside})"
    elif isinstance(value, Enum):
        text = value.name
    elif is_dataclass(value):
        text = str(value)
    else:
        text = getattr(value, "__name__", None) or repr(value)
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 3] + "..."


def _in_brackets(value: list[Any] | tuple[Any, ...], texts: list[str]) -> str:
    """Join the texts of the items as Python does for a value of this type."""
    inside = ", ".join(texts)
    if isinstance(value, list):
        return f"[{inside}]"
    return f"({inside},)" if len(value) == 1 else f"({inside})"


def shown_apart(one: object, other: object) -> tuple[str, str]:
    """Format two values as text, shortened so that their first difference remains visible.

    `shown`, in contrast, might truncate the two values to the same text.
    """
    if isinstance(one, bytes) and isinstance(other, bytes):
        at = _first_difference(one, other)
        return _bytes_from(one, at), _bytes_from(other, at)
    for kind in (list, tuple):
        if isinstance(one, kind) and isinstance(other, kind):
            at = _first_difference(one, other)
            items: tuple[str | None, str | None] = (None, None)
            if at < min(len(one), len(other)):
                items = shown_apart(one[at], other[at])
            return _items_with(one, at, items[0]), _items_with(other, at, items[1])
    return shown(one), shown(other)


def _first_difference(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _bytes_from(value: bytes, at: int) -> str:
    """Format the bytes from index `at` on, truncating them if there are many."""
    if len(value) <= _MAX_SHOWN_BYTES or at + 1 < _MAX_SHOWN_BYTES:
        return shown(value)
    part = value[at : at + _MAX_SHOWN_BYTES].hex(" ")
    return f"{len(value)} bytes, from byte {at} on: {part or 'none'}"


def _items_with(value: list[Any] | tuple[Any, ...], at: int, item: str | None) -> str:
    """Format a list, shortened so that item `at` remains visible; the text `item` is shown in place
    of that item's own text.
    """
    texts = [shown(each) for each in value]
    if item is not None:
        texts[at] = item
    text = _in_brackets(value, texts)
    if len(text) <= _MAX_CHARACTERS:
        return text
    return (
        f"{len(value)} items, of which item {at} is {texts[at] if at < len(texts) else 'missing'}"
    )
