"""The exception for a wrong answer.

This is a separate module, so that a process that runs a learner's client does not have to import
the views that a card needs.
"""

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
