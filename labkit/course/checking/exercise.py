"""Exercises, each of which has a name, three hints, and a trial that runs the learner's object in
the real system.

    @exercise("garbage.worth", hints=(...), like=garbage.logs_to_compact, cases=Cases(...))
    def worth(learner: Worth) -> str:
        '''Compaction copies the logs in which little is still alive.'''
        with patch.object(garbage, "logs_to_compact", learner):
            copied = compact(LOGS)
        return f"With your choice, compaction copied {copied} bytes."

The part of the name before the dot is the name of a module in `labkit/course/exercises/`. A trial
returns one sentence that says what was tested, or raises `Refused`. A trial does not have to catch
exceptions raised by the learner's code or limit the code's run time, because `check` does that. Nor
does it have to check the type of a result, because labkit compares the type with the annotation of
`like`. However, a trial must check that an answer is in range before using the answer to allocate
memory or to loop. The generated `cases` run after the trial.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from inspect import Signature, signature
from math import isfinite
from typing import Any, get_type_hints

from labkit.course.checking.annotations import annotation_name, matches_annotation
from labkit.course.checking.cases import Cases, WrongCalls, format_call, shown
from labkit.course.checking.plain_values import without_numpy
from labkit.course.checking.refused import Refused

Trial = Callable[[Any], str]
Listener = Callable[[tuple[Any, ...], Any], None]
HINT_COUNT = 3
_MAX_ITEMS, _MAX_BYTES = 10_000, 4 * 1024 * 1024
"""Limits on what the learner's function may return in one call; correct answers need less than
half.
"""

_MAX_LINES = 20
"""A call whose description has more lines than this is not shown next to the run in which it was
made.
"""

_exercises: dict[str, "Exercise"] = {}


class NoSuchExerciseError(LookupError):
    """Raised if an exercise does not exist; the message lists the exercises of its lesson."""


class RaisedThereError(Exception):
    """Raised if the learner's function, which runs in another process, raised an exception there.

    problem: the exception as text; where: the learner's line or function.
    """

    def __init__(self, problem: str, where: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.where = where


@dataclass(frozen=True, slots=True)
class Exercise:
    """An exercise; the learner's function replaces the function `like`."""

    name: str
    hints: tuple[str, ...]
    like: Callable[..., Any] | None
    cases: Cases | None
    needs_spark: bool
    trial: Trial

    def with_cases_of(self, seed: int) -> "Exercise":
        return self if self.cases is None else replace(self, cases=replace(self.cases, seed=seed))

    def run(self, learner: Any) -> str:
        """Test the learner's object and return a sentence that says what was tested. Raises
        `Refused` if the answer is wrong.
        """
        if self.cases is None or self.like is None:
            return self.trial(self.with_type_checks(learner))
        if self.cases.run_first:
            self.run_cases(learner)
        calls = WrongCalls(self.cases, self._shown_name(learner))
        try:
            message = self.trial(self.with_type_checks(learner, calls.listen))
        except Refused as refused:
            self._explain(refused, calls)
            raise
        if not self.cases.run_first:
            self.run_cases(learner)
        return message

    def _explain(self, refused: Refused, calls: WrongCalls) -> None:
        """Add the wrong call to the card, because the failed run shows only the consequences of the
        call.
        """
        wrong = calls.breaking(refused.message)
        if wrong is None:
            return
        rule, wrong_call = wrong
        if wrong_call.call in f"{refused.message} {refused.counterexample}":
            return
        if refused.counterexample is None:
            refused.counterexample = wrong_call
            return
        if wrong_call.call.count("\n") > _MAX_LINES:
            return  # The counterexample already names the event that matters.
        refused.asked = wrong_call
        if self.cases and rule in self.cases.preferred_rules:
            refused.message = rule

    def run_cases(self, learner: Any) -> None:
        """Run the generated cases. Raises `Refused` with the smallest failing case."""
        if self.cases:
            wrong = self.cases.wrong(self.with_type_checks(learner), self._shown_name(learner))
            if wrong is not None:
                raise Refused(*wrong)

    def with_type_checks(self, learner: Any, listen: Listener | None = None) -> Any:
        if self.like is None:
            return learner
        return with_type_checks(learner, self.like, self._shown_name(learner), listen)

    def _shown_name(self, learner: Any) -> str:
        """Return the name of the learner's function or, if it is a lambda, the name of the
        exercise.
        """
        name = getattr(learner, "__name__", "")
        return name if name.isidentifier() else self.name.partition(".")[2]


def exercise(
    name: str,
    hints: tuple[str, str, str],
    like: Callable[..., Any] | None = None,
    cases: Cases | None = None,
    needs_spark: bool = False,
) -> Callable[[Trial], Trial]:
    """Register the decorated trial as the exercise `name` ("lesson.exercise").

    hints: three hints, from a nudge to almost the answer
    like: a function with the parameters and the annotated return type that the learner's function
        must have; labkit checks both
    cases: generated cases with which the function is tested after the trial
    needs_spark: whether the trial uses the Spark session of this process
    """

    def register(trial: Trial) -> Trial:
        _exercises[name] = Exercise(name, hints, like, cases, needs_spark, trial)
        return trial

    return register


def all_exercises() -> list[Exercise]:
    return list(_exercises.values())


def load_lesson(lesson: str) -> None:
    """Import a lesson's exercises. Raises `NoSuchExerciseError` if the lesson has no exercises."""
    module = f"labkit.course.exercises.{lesson}"
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise  # The lesson exists, but this machine lacks a package that it needs.
        raise NoSuchExerciseError(f"there is no lesson with exercises named {lesson!r}") from None


def find(name: str) -> Exercise:
    """Return an exercise by name. Raises `NoSuchExerciseError`, which lists the exercises of its
    lesson.
    """
    lesson = name.partition(".")[0]
    load_lesson(lesson)
    if name not in _exercises:
        others = sorted(each for each in _exercises if each.startswith(lesson + "."))
        raise NoSuchExerciseError(
            f"there is no exercise {name!r}; the exercises of this lesson are {', '.join(others)}"
        )
    return _exercises[name]


def with_type_checks(
    learner: Any,
    like: Callable[..., Any],
    name: str,
    listen: Listener | None = None,
) -> Callable[..., Any]:
    """Check the parameters of the learner's function, and wrap the function so that its return
    values are checked, too.

    Raises `Refused` if the parameters do not match those of `like`. The wrapper raises `Refused` if
    a return value does not match the return type of `like`. `listen` is called with the arguments
    and the result of each call. Error messages refer to the function as `name`.
    """
    wanted = signature(like)
    if not callable(learner):
        raise Refused(f"The answer must be a function with the parameters {_shape(wanted)}.")
    _must_take(wanted, learner)
    hint = get_type_hints(like)["return"]

    @wraps(learner)
    def checked(*arguments: Any) -> Any:
        # Pass copies, so that the learner's function cannot modify the trial's lists and dicts.
        result = without_numpy(learner(*map(_copied, arguments)))
        if (broken := _limit_broken_by(result)) is not None:
            raise Refused(f"{format_call(name, arguments)} must return {broken}.")
        if not matches_annotation(result, hint):
            call = format_call(name, arguments)
            hint_text = (
                "; is there a `return`?" if result is None else f" ({type(result).__name__})."
            )
            raise Refused(
                f"{call} must return {annotation_name(hint)}; yours returned"
                f" {shown(result)}{hint_text}"
            )
        if listen is not None:
            listen(arguments, result)
        return result

    return checked


def _limit_broken_by(value: Any) -> str | None:
    """Return a description of the limit that a returned value exceeds, or None if the value exceeds
    no limit.

    The trial uses the value in calculations, so without a limit a large value could make the trial
    slow.
    """
    waiting, count, size_bytes = [value], 0, 0
    while waiting:
        each = waiting.pop()
        if isinstance(each, str | bytes):
            size_bytes += len(each)
            if size_bytes > _MAX_BYTES:
                return f"at most {_MAX_BYTES:,} bytes"
        elif isinstance(each, list | tuple | set | frozenset | dict):
            count += len(each)
            if count > _MAX_ITEMS:
                return f"at most {_MAX_ITEMS:,} items"
            waiting += each
            if isinstance(each, dict):
                waiting += each.values()
        elif isinstance(each, float) and not isfinite(each):
            return "finite numbers"
        elif isinstance(each, int) and not -(2**63) <= each < 2**63:
            return "integers of at most 64 bits"  # the range of BookKeeper's fields
    return None


def require_permutation(steps: Sequence[str], answer: Any) -> tuple[str, ...]:
    """Return the answer as a tuple. Raises `Refused` if it is not a permutation of these steps."""
    if (
        not isinstance(answer, list | tuple)
        or len(answer) != len(steps)
        or not all(step in answer for step in steps)
    ):
        raise Refused(
            f"The answer must be a list that contains each of the {len(steps)} steps exactly once."
        )
    return tuple(answer)


def _copied(value: Any) -> Any:
    """Copy lists, sets and dicts recursively; return any other value itself."""
    if type(value) is dict:
        return {key: _copied(each) for key, each in value.items()}
    if type(value) in (list, set):
        return type(value)(map(_copied, value))
    return value


def _must_take(wanted: Signature, learner: Callable[..., Any]) -> None:
    try:
        takes = signature(learner)
    except ValueError:
        return  # Some built-in functions, such as max, have no signature.
    try:
        takes.bind(*wanted.parameters)
    except TypeError:
        raise Refused(
            f"Your function takes {_shape(takes)}; it must take {_shape(wanted)}."
        ) from None


def _shape(signed: Signature) -> str:
    return f"({', '.join(signed.parameters)})"
