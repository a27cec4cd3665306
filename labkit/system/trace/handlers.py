"""The `on` decorator, which marks methods as handlers of event kinds."""

from collections.abc import Callable
from typing import TypeVar

from labkit.system.trace.kinds import KINDS

_Method = TypeVar("_Method", bound=Callable[..., None])


def on(*kinds: str) -> Callable[[_Method], _Method]:
    """Mark a method as the handler of these kinds. Raises `LookupError` if a kind is unknown."""
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise LookupError(f"unknown event kind: {', '.join(unknown)}")

    def mark(method: _Method) -> _Method:
        method.kinds = kinds  # type: ignore[attr-defined]
        return method

    return mark


def handlers_of(cls: type) -> tuple[tuple[str, str], ...]:
    """Return each kind that the class handles, with the name of the handler method.

    A class may have several handlers for the same kind. The handlers are returned in the order of
    their definition, starting with the base class. A method that overrides a method of the base
    class takes that method's place.
    """
    names = dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base))
    return tuple(
        (kind, name) for name in names for kind in getattr(getattr(cls, name), "kinds", ())
    )
