"""The controls above a picture, in the form that `browser/controls.js` expects."""

from collections.abc import Iterable
from typing import Any

Control = dict[str, Any]


def button(name: str, label: str, can_press: bool = True) -> Control:
    return {"name": name, "label": label, "kind": "button", "disabled": not can_press}


def choice(name: str, label: str, value: str, options: Iterable[tuple[str, str]]) -> Control:
    """Return a menu; each option is a value and its label."""
    shown = [[key, words] for key, words in options]
    return {"name": name, "label": label, "kind": "choice", "value": value, "options": shown}


def number(
    name: str, label: str, value: float, least: float = 0, most: float | None = None, step: Any = 1
) -> Control:
    """Return a field for a number. If `step` is "any", the number may be a fraction."""
    limits = {"min": least} if most is None else {"min": least, "max": most}
    return {"name": name, "label": label, "kind": "number", "value": value, **limits, "step": step}
