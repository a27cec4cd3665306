"""Converts the results of a learner's function to Python's own types."""

from typing import Any


def without_numpy(value: Any) -> Any:
    """Replace NumPy scalars with Python's own numbers and booleans."""
    if type(value) in (list, tuple):
        return type(value)(map(without_numpy, value))
    is_numpy = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if is_numpy else value
