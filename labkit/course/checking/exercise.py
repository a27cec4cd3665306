"""Exercises: a name, three hints, and a trial that puts the learner's object into the real code.

    @exercise("journal.padding", hints=(...), like=journal.padding, cases=Cases(...))
    def padding(learner: Padding) -> str:
        '''Replay steps over what is between two groups.'''
        with patch.object(journal, "padding", learner):
            must_survive("Replay must step over the padding to the next record.", SCRIPT)
        return "Replay stepped over your padding in 21 crashes."

The part of the name before the dot is the module in `labkit/course/exercises/`.  A trial returns
one sentence that says what was tried, or raises `Refused`; it need not care for what the learner's
code raises, for how long it runs, or for what type it returns: `check` and `like` do.  It must
check the range of an answer before it allocates or loops by it.  After the trial come the generated
`cases`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from inspect import Signature, signature
from math import isfinite
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from labkit.course.checking.cases import Cases, WrongAnswer, WrongCalls, call_of, shown

Trial = Callable[[Any], str]
HINT_COUNT = 3
_MOST_ITEMS, _MOST_BYTES = 10_000, 4 * 1024 * 1024
"""How much a learner's function may return in one call; no right answer needs half of it."""

_exercises: dict[str, "Exercise"] = {}


class Refused(Exception):
    """An answer is wrong: the rule that it breaks, and the smallest case that shows it."""

    def __init__(
        self, message: str, counterexample: object = None, asked: WrongAnswer | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.counterexample = counterexample
        self.asked = asked


class NoSuchExerciseError(LookupError):
    """No lesson has that exercise; the text names those that the lesson has."""


class RaisedThereError(Exception):
    """The learner's function runs in another process, and raised there.

    problem: what, in words; where: the learner's line or function.
    """

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where


@dataclass(frozen=True, slots=True)
class Exercise:
    """What `check` and `hint` need.  `like` is the function whose place the learner's takes."""

    name: str
    hints: tuple[str, ...]
    like: Callable[..., Any] | None
    cases: Cases | None
    needs_spark: bool
    trial: Trial

    def with_cases_of(self, seed: int) -> "Exercise":
        """The same exercise with the generated cases of this seed."""
        return self if self.cases is None else replace(self, cases=replace(self.cases, seed=seed))

    def run(self, learner: Any) -> str:
        """Try the learner's object; returns what was tried or raises `Refused`."""
        if self.cases is None or self.like is None:
            return self.trial(self.fitted(learner))
        if self.cases.first:
            self.ask_cases(learner)
        calls = WrongCalls(self.cases, _name(learner, self.like))
        try:
            message = self.trial(fitted(learner, self.like, calls.listen))
        except Refused as refused:
            self._explain(refused, calls)
            raise
        if not self.cases.first:
            self.ask_cases(learner)
        return message

    def _explain(self, refused: Refused, calls: WrongCalls) -> None:
        """A run says what happened; a call says what the learner's function had to do with it."""
        wrong = calls.breaking(refused.message)
        if wrong is None:
            return
        rule, asked = wrong
        if asked.call in f"{refused.message} {refused.counterexample}":
            return
        if refused.counterexample is None:
            refused.counterexample = asked
            return
        refused.asked = asked
        if self.cases and rule in self.cases.of_runs:
            refused.message = rule

    def ask_cases(self, learner: Any) -> None:
        """Ask the generated cases.  Raises `Refused` with the smallest that is answered wrong."""
        if self.cases and self.like:
            wrong = self.cases.wrong(self.fitted(learner), _name(learner, self.like))
            if wrong is not None:
                raise Refused(*wrong)

    def fitted(self, learner: Any) -> Any:
        """The learner's object as the trial gets it."""
        return learner if self.like is None else fitted(learner, self.like)


def exercise(
    name: str,
    hints: tuple[str, str, str],
    like: Callable[..., Any] | None = None,
    cases: Cases | None = None,
    needs_spark: bool = False,
) -> Callable[[Trial], Trial]:
    """Register the decorated trial as the exercise `name` ("lesson.what").

    hints: from a nudge to nearly the answer.
    like: a function with the arguments and the annotated return type that the learner's must have;
    the trial then gets the learner's function with both checked.
    cases: questions that the function is asked after the trial.
    needs_spark: the trial talks to this process's Spark session.
    """

    def register(trial: Trial) -> Trial:
        _exercises[name] = Exercise(name, hints, like, cases, needs_spark, trial)
        return trial

    return register


def all_exercises() -> list[Exercise]:
    """Every exercise of the lessons whose modules were imported."""
    return list(_exercises.values())


def load_lesson(lesson: str) -> None:
    """Import a lesson's exercises.  Raises `NoSuchExerciseError` for a lesson without any."""
    module = f"labkit.course.exercises.{lesson}"
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise  # The lesson is there; a package that it needs is not.
        raise NoSuchExerciseError(f"there is no lesson {lesson!r} with exercises") from None


def find(name: str) -> Exercise:
    """The exercise of that name.  Raises `NoSuchExerciseError` that names those of its lesson."""
    lesson = name.partition(".")[0]
    load_lesson(lesson)
    if name not in _exercises:
        others = sorted(each for each in _exercises if each.startswith(lesson + "."))
        raise NoSuchExerciseError(
            f"there is no exercise {name!r}; this lesson has {', '.join(others)}"
        )
    return _exercises[name]


def fitted(
    learner: Any,
    like: Callable[..., Any],
    listen: Callable[[tuple[Any, ...], Any], None] | None = None,
) -> Callable[..., Any]:
    """The learner's function, refused when its arguments or what it returns do not fit.

    `listen` gets the arguments and the answer of each call.
    """
    wanted = signature(like)
    if not callable(learner):
        raise Refused(f"The answer must be a function like {like.__name__}{_shape(wanted)}.")
    _must_take(wanted, learner)
    hint = get_type_hints(like)["return"]

    @wraps(learner)
    def checked(*arguments: Any) -> Any:
        # Copies: what the learner's function does to a list or a table, it does to its own.
        result = plain(learner(*map(_copied, arguments)))
        if (broken := _limit_broken_by(result)) is not None:
            raise Refused(f"{call_of(_name(learner, like), arguments)} must return {broken}.")
        if not fits(result, hint):
            call = call_of(_name(learner, like), arguments)
            asked = "; is there a `return`?" if result is None else f" ({type(result).__name__})."
            raise Refused(
                f"{call} must return {name_of(hint)}; yours returned {shown(result)}{asked}"
            )
        if listen is not None:
            listen(arguments, result)
        return result

    return checked


def _limit_broken_by(value: Any) -> str | None:
    """Return the limit that a returned value exceeds, in words, or None.

    A trial computes with the value, so its size must not decide how long that takes.
    """
    waiting, count, size_bytes = [value], 0, 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, str | bytes):
            size_bytes += len(each)
            if size_bytes > _MOST_BYTES:
                return f"at most {_MOST_BYTES:,} bytes"
        elif isinstance(each, list | tuple | set | frozenset | dict):
            count += len(each)
            if count > _MOST_ITEMS:
                return f"at most {_MOST_ITEMS:,} items"
            waiting += each
            if isinstance(each, dict):
                waiting += each.values()
        elif isinstance(each, float) and not isfinite(each):
            return "finite numbers"
        elif isinstance(each, int) and not -(2**63) <= each < 2**63:
            return "integers of at most 64 bits"  # what the fields of BookKeeper can hold
    return None


def in_order(steps: Sequence[str], answer: Any) -> tuple[str, ...]:
    """An answer that is an order of these steps.  Raises `Refused` for any other."""
    if (
        not isinstance(answer, list | tuple)
        or len(answer) != len(steps)
        or not all(step in answer for step in steps)
    ):
        raise Refused(f"The answer must be a list with each of the {len(steps)} steps once.")
    return tuple(answer)


def _name(learner: Any, like: Callable[..., Any]) -> str:
    """What the learner calls the function; a lambda has no name."""
    name = getattr(learner, "__name__", "")
    return name if name.isidentifier() else like.__name__


def _copied(value: Any) -> Any:
    """Lists, sets and tables again, with what is in them; anything else as it is."""
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    if type(value) in (list, set):
        return type(value)(map(_copied, value))
    return value


def plain(value: Any) -> Any:
    """A value with Python's own truth values and numbers in the place of NumPy's."""
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    is_numpy = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_numpy else value


def _must_take(wanted: Signature, learner: Callable[..., Any]) -> None:
    try:
        takes = signature(learner)
    except ValueError:
        return  # Python does not know the signatures of some built-in functions, such as max.
    try:
        takes.bind(*wanted.parameters)
    except TypeError:
        raise Refused(
            f"Your function takes {_shape(takes)}; it must take {_shape(wanted)}."
        ) from None


def _shape(signed: Signature) -> str:
    return f"({', '.join(signed.parameters)})"


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says, and all that is in a list as well.

    What is in a tuple is left to the trial, which can say what each part means.
    """
    if isinstance(hint, UnionType):
        return any(fits(value, each) for each in get_args(hint))
    kind = get_origin(hint) or hint
    if isinstance(value, bool) and kind in (int, float):
        return False
    if kind is float:
        return isinstance(value, int | float)
    # A value of another process may stand for one that cannot leave it.
    if not isinstance(value, kind) and getattr(value, "stands_for", None) is not kind:
        return False
    return kind is not list or all(_fits_in_list(each, *get_args(hint)) for each in value)


def _fits_in_list(item: Any, hint: Any) -> bool:
    parts = get_args(hint) if get_origin(hint) is tuple else ()
    return fits(item, hint) and (
        not parts or (len(item) == len(parts) and all(map(fits, item, parts)))
    )


def name_of(hint: Any) -> str:
    """An annotation in words."""
    return str(hint) if get_args(hint) else hint.__name__
