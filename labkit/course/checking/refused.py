"""The exception for a wrong answer, and descriptions of exceptions that the learner's code raised.

This is a separate module, so that a process that runs a learner's client does not have to import
the views that a card needs.
"""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from labkit.course.checking.cases import WrongAnswer


class Refused(Exception):
    """Raised for a wrong answer, with the rule that the answer breaks and the smallest case that
    shows the violation.
    """

    def __init__(
        self, message: str, counterexample: object = None, asked: "WrongAnswer | None" = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.counterexample = counterexample
        self.asked = asked


def raised_words(error: BaseException, where: str) -> str:
    """Describe an exception that the learner's code raised, with the notes added to it."""
    notes = getattr(error, "__notes__", ())
    return "\n".join((f"Your code raised {words_of(error)} in {where}.", *notes))


def words_of(error: BaseException) -> str:
    """Return the exception's type and message, such as "struct.error: argument out of range"."""
    kind = type(error)
    is_in_library = kind.__module__ in sys.stdlib_module_names and kind.__module__ != "builtins"
    name = f"{kind.__module__}.{kind.__name__}" if is_in_library else kind.__name__
    return f"{name}: {error}".removesuffix(": ")
