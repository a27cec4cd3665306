"""The verbs' results as JSON: the dataclass's fields, bytes in hexadecimal, `kind` first."""

from dataclasses import fields
from enum import Enum
from typing import Any


def as_plain(value: Any, *, with_data: bool) -> Any:
    """A value that `json.dumps` takes.  Without `with_data`, entries come without their bytes."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return [as_plain(each, with_data=with_data) for each in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    plain = {
        field.name: as_plain(getattr(value, field.name), with_data=with_data)
        for field in fields(value)
        if with_data or field.name != "data"
    }
    return {"kind": type(value).__name__, **plain}
