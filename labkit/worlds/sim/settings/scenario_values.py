"""Values that are written as Python and as JSON: the parts of scenarios.

`repr` leaves out what has its default, so that a scenario is as short as it is simple; evaluated,
it gives the same value.
"""

from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.settings.value_rules import check_fields

_CLASSES: dict[str, type[Any]] = {}


class Value:
    """Base of frozen dataclasses whose fields are numbers, texts, other values and tuples."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        """Remember the class by its name, to read it again."""
        _CLASSES[cls.__name__] = cls

    def __post_init__(self) -> None:
        """Raises `BKIncorrectParameterException` for a field whose annotation says otherwise."""
        check_fields(self)

    def __repr__(self) -> str:
        return _text(self)


def register(cls: type[Any]) -> None:
    """Let values hold dataclasses of this kind, too."""
    _CLASSES[cls.__name__] = cls


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if type(value).__name__ in _CLASSES:
        named = (f"{name}={_text(part)}" for name, part in _changed(value).items())
        return f"{type(value).__name__}({', '.join(named)})"
    return repr(value)


def to_data(value: Any) -> Any:
    """The value as JSON has it: an object is `{"Crash": {...}}`."""
    if is_dataclass(value):
        named = {name: to_data(part) for name, part in _changed(value).items()}
        return {type(value).__name__: named}
    if isinstance(value, (tuple, list)):
        return [to_data(part) for part in value]
    if isinstance(value, dict):
        return dict(value)
    return value


def from_data(data: Any) -> Any:
    """The inverse.  Raises `BKIncorrectParameterException` for data that is not a value."""
    if isinstance(data, list):
        return tuple(from_data(part) for part in data)
    if isinstance(data, dict) and len(data) == 1:
        ((name, named),) = data.items()
        if isinstance(named, dict):
            if name not in _CLASSES:
                raise BKIncorrectParameterException(f"{name!r} cannot be part of a scenario")
            try:
                value = _CLASSES[name](**{key: from_data(part) for key, part in named.items()})
            except TypeError as error:
                raise BKIncorrectParameterException(f"{name}: {error}") from None
            # Settings of the protocol check what they compare, but not each field's type.
            check_fields(value)
            return value
    return data


def _changed(value: Any) -> dict[str, Any]:
    """The fields whose value is not the default."""
    return {
        field.name: part
        for field in fields(value)
        if (part := getattr(value, field.name)) != default_of(field)
    }


def default_of(field: "Field[Any]") -> Any:
    """The field's default value; `dataclasses.MISSING` if it has none."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default
