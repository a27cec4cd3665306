"""Methods that take events, marked with the kinds they take."""

from collections.abc import Callable
from typing import TypeVar

from labkit.system.trace.events import KINDS

_Method = TypeVar("_Method", bound=Callable[..., None])


def on(*kinds: str) -> Callable[[_Method], _Method]:
    """Mark a method as the one that takes events of these kinds.

    Raises `LookupError` for a kind that the trace does not know.
    """
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise LookupError(f"no such kind of event: {', '.join(unknown)}")

    def mark(method: _Method) -> _Method:
        method.kinds = kinds  # type: ignore[attr-defined]
        return method

    return mark


def handlers_of(cls: type) -> tuple[tuple[str, str], ...]:
    """Each kind that the class takes, with the name of the method that takes it."""
    return tuple(
        (kind, name) for name in dir(cls) for kind in getattr(getattr(cls, name), "kinds", ())
    )
