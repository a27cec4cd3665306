"""Compares values with type annotations."""

from types import UnionType
from typing import Any, get_args, get_origin


def matches_annotation(value: Any, hint: Any) -> bool:
    """Return whether a value, including the items of a list, matches a type annotation.

    The items of a tuple are not checked here: the trial checks them, because it can explain what
    each one means.
    """
    if isinstance(hint, UnionType):
        return any(matches_annotation(value, each) for each in get_args(hint))
    kind = get_origin(hint) or hint
    if isinstance(value, bool) and kind in (int, float):
        return False
    if kind is float:
        return isinstance(value, int | float)
    # The value may be a proxy for an object that cannot leave another process.
    if not isinstance(value, kind) and getattr(value, "stands_for", None) is not kind:
        return False
    return kind is not list or all(_fits_in_list(each, *get_args(hint)) for each in value)


def _fits_in_list(item: Any, hint: Any) -> bool:
    parts = get_args(hint) if get_origin(hint) is tuple else ()
    return matches_annotation(item, hint) and (
        not parts or (len(item) == len(parts) and all(map(matches_annotation, item, parts)))
    )


def annotation_name(hint: Any) -> str:
    return str(hint) if get_args(hint) else hint.__name__
