"""Exercises: a name, three hints, and a trial that puts the learner's object into the real code.

    @exercise("journal.padding", hints=("...", "...", "..."), like=journal.padding)
    def padding(learner: Padding) -> str:
        '''The file goes on at a multiple of the alignment, whatever was written.'''
        for offset in range(512, 1025):
            if (offset + len(learner(offset, 512))) % 512:
                raise Refused("After the padding the file must go on at ...", Case(offset))
        return "Held from every offset of a block."

The part of the name before the dot is the module in `labkit/lessons/exercises/`.  A trial returns
one sentence that says what was tried, or raises `Refused`; it need not care for what the learner's
code raises, for how long it runs, or for what it returns: `check` and `like` do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from inspect import Signature, signature
from types import UnionType
from typing import Any, get_origin, get_type_hints

Trial = Callable[[Any], str]
HINT_COUNT = 3

_exercises: dict[str, "Exercise"] = {}


class Refused(Exception):
    """An answer is wrong: the rule that it breaks, and the smallest case that shows it."""

    def __init__(self, message: str, counterexample: object = None) -> None:
        super().__init__(message)
        self.message = message
        self.counterexample = counterexample


@dataclass(frozen=True, slots=True)
class Exercise:
    """What `check` and `hint` need.  `like` is the function whose place the learner's takes."""

    name: str
    hints: tuple[str, ...]
    like: Callable[..., Any] | None
    trial: Trial

    def run(self, learner: Any) -> str:
        """Try the learner's object; returns what was tried or raises `Refused`."""
        return self.trial(learner if self.like is None else fitted(learner, self.like))


def exercise(
    name: str, hints: tuple[str, str, str], like: Callable[..., Any] | None = None
) -> Callable[[Trial], Trial]:
    """Register the decorated trial as the exercise `name` ("lesson.what").

    hints: from a nudge to nearly the answer.
    like: a function with the arguments and the annotated return type that the learner's must have;
    the trial then gets the learner's function with both checked.
    """

    def register(trial: Trial) -> Trial:
        _exercises[name] = Exercise(name, hints, like, trial)
        return trial

    return register


def find(name: str) -> Exercise:
    """The exercise of that name.  Raises `LookupError` that names those of its lesson."""
    lesson = name.partition(".")[0]
    try:
        import_module(f"labkit.lessons.exercises.{lesson}")
    except ModuleNotFoundError:
        raise LookupError(f"there is no lesson {lesson!r} with exercises") from None
    if name not in _exercises:
        others = sorted(each for each in _exercises if each.startswith(lesson + "."))
        raise LookupError(f"there is no exercise {name!r}; this lesson has {', '.join(others)}")
    return _exercises[name]


def fitted(learner: Any, like: Callable[..., Any]) -> Callable[..., Any]:
    """The learner's function, refused when its arguments or what it returns do not fit."""
    wanted = signature(like)
    if not callable(learner):
        raise Refused(f"The answer must be a function like {like.__name__}{_shape(wanted)}.")
    try:
        signature(learner).bind(*wanted.parameters)
    except TypeError:
        raise Refused(
            f"Your function takes {_shape(signature(learner))}; it must take {_shape(wanted)}."
        ) from None
    kind = _class_of(get_type_hints(like)["return"])

    @wraps(learner)
    def checked(*arguments: Any) -> Any:
        result = learner(*arguments)
        if not isinstance(result, kind):
            call = f"{like.__name__}({', '.join(map(_short, arguments))})"
            raise Refused(
                f"{call} must return {_name_of(kind)}; yours returned {_short(result)}"
                f" ({type(result).__name__})."
            )
        return result

    return checked


def _shape(signed: Signature) -> str:
    return f"({', '.join(signed.parameters)})"


def _class_of(hint: Any) -> Any:
    """What `isinstance` takes for an annotation: `list[int]` is a list."""
    return hint if isinstance(hint, UnionType) else get_origin(hint) or hint


def _name_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
