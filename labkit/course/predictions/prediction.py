"""Explanations of wrong predictions.

    PREDICTIONS = {
        "bytes of entry 0": Prediction(
            "Look at the printed line `memtable`: how often does it list entry 0?",
            {99: "The bookie acknowledged the second add, too, but it keeps the first payload."},
        ),
    }

The wrong values result from misconceptions, such as a rule that actually applies to another
component.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

Values = Mapping[str, Any]
"""The values of a lesson's parameters."""

Likely = Mapping[Any, str]
"""Maps each likely wrong value to an explanation of what is wrong with it. A tuple also stands for
a list, and a tuple of items for a dictionary.
"""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Explanations of wrong values for one prediction.

    look: the explanation of any other wrong value, which says where the learner can see the answer
    likely: the likely wrong values, or a function that returns them for the lesson's parameters
    """

    look: str
    likely: Likely | Callable[[Values], Likely]

    def why_not(self, predicted: object, values: Values) -> str:
        """Explain why this value is wrong."""
        likely = self.likely(values) if callable(self.likely) else self.likely
        # Compare the values one by one instead of looking up the value, which may contain lists.
        comparable = hashable(predicted)
        found = (why for value, why in likely.items() if value == comparable)
        return next(found, self.look)


def hashable(value: object) -> object:
    """Convert a list or a dictionary to a tuple, so that it can be a key of `Likely`."""
    return tuple(value.items()) if isinstance(value, dict) else as_tuple(value)


def as_tuple(value: object) -> object:
    """Convert a list to a tuple, because learners do not need to know which of the two labkit
    uses.
    """
    return tuple(value) if isinstance(value, list) else value


@cache
def predictions_of(lesson: str) -> Mapping[str, Prediction]:
    """Return a lesson's predictions by name, or an empty dictionary if the lesson has no
    explanations.
    """
    module = f"{__package__}.lesson_{lesson}"
    try:
        predictions: Mapping[str, Prediction] = import_module(module).PREDICTIONS
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        return {}
    return predictions
