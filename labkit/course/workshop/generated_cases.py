"""Tests a learner's part with hundreds of generated cases, and shows the smallest failing one."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from labkit.course.checking.cases import Cases
from labkit.course.checking.generated_cases import Recipe, generated_cases, smallest_failing_case
from labkit.course.checking.refused import Refused
from labkit.course.workshop.files import last_line_in
from labkit.course.workshop.learner import Learner

T = TypeVar("T")


def try_calls(learner: Learner, name: str, returns: Any, cases: Cases) -> None:
    """Call the learner's function with generated arguments. Raises `Refused` with the smallest call
    that returns a wrong result.
    """
    wrong = cases.wrong(partial(learner.call, name, returns), name)
    if wrong is not None:
        raise Refused(*wrong)


def try_generated(
    learner: Learner,
    recipe: Recipe[T],
    count: int,
    test: Callable[[Learner, T], None],
    shown: Callable[[T], str] | None = None,
) -> None:
    """Test `count` cases. If a case fails, raises `Refused` with the smallest case that breaks the
    same rule. If the learner's code raises an exception, raises this exception with the smallest
    case as a note.

    test: raises `Refused` with the broken rule, and with a description of how the case breaks it
    shown: formats a case; not needed if the description includes the whole case
    """
    for case, numbers in generated_cases(recipe, count):
        failure = _failure(learner, test, case)
        if failure is None:
            continue
        breaks = partial(_fails_alike, learner, test, failure)
        smallest = smallest_failing_case(recipe, numbers, breaks)
        smaller_failure = _failure(learner, test, smallest)
        if smaller_failure is None:  # The part is not deterministic and passed this time.
            smallest, smaller_failure = case, failure
        text = [shown(smallest)] if shown else []
        if isinstance(smaller_failure, Refused):
            how = str(smaller_failure.counterexample)
            raise Refused(smaller_failure.message, "\n".join((*text, how)))
        learner.error = smaller_failure
        for note in text:
            smaller_failure.add_note(note)
        raise smaller_failure


def _failure(learner: Learner, test: Callable[[Learner, T], None], case: T) -> Exception | None:
    """Return the refusal of this case, or the exception that the learner's code raises.

    A refusal without a description is raised: it says that a part is missing or that a result has
    the wrong type, which no case explains better.
    """
    try:
        test(learner, case)
    except NotImplementedError:
        raise
    except Exception as error:
        is_known = (
            error.counterexample is not None
            if isinstance(error, Refused)
            else last_line_in(learner.file, error)
        )
        if not is_known:
            raise
        learner.error = None  # Otherwise, the learner's next call would raise it again.
        return error
    return None


def _fails_alike(
    learner: Learner, test: Callable[[Learner, T], None], failure: Exception, case: T
) -> bool:
    """Return whether the case breaks the same rule, or raises an exception of the same type."""
    found = _failure(learner, test, case)
    if isinstance(found, Refused) and isinstance(failure, Refused):
        return found.message == failure.message
    return type(found) is type(failure)
