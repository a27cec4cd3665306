"""Values that can be converted to Python source code and to JSON. Scenarios consist of such values.

`repr` omits fields that have their default values, which keeps the code of simple scenarios short.
Evaluating the result of `repr` yields an equal value.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.broker.config import BrokerConfig
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.config import StorageConfig
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.worlds.sim.settings.value_rules import check_fields

CLASSES: dict[str, type[Any]] = {
    each.__name__: each
    for each in (StorageConfig, AutoRecoveryConfig, BrokerConfig, ManagedLedgerConfig)
}
"""The classes of values, by name: the subclasses of `Value`, and the system's own settings."""


class Value:
    """Base class of frozen dataclasses whose fields are numbers, strings, tuples or values."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        if not cls.__name__.startswith("_"):
            CLASSES[cls.__name__] = cls

    def __post_init__(self) -> None:
        check_fields(self)

    def __repr__(self) -> str:
        return _text(self)


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if type(value).__name__ in CLASSES:
        named = (f"{name}={_text(part)}" for name, part in non_default_fields(value).items())
        return f"{type(value).__name__}({', '.join(named)})"
    return repr(value)


def to_data(value: Any) -> Any:
    """Convert a value to JSON data. For example, a `Crash` becomes `{"Crash": {...}}`."""
    if is_dataclass(value):
        named = {name: to_data(part) for name, part in non_default_fields(value).items()}
        return {type(value).__name__: named}
    if isinstance(value, (tuple, list)):
        return [to_data(part) for part in value]
    if isinstance(value, dict):
        return dict(value)
    return value


def from_data(data: Any, classes: Mapping[str, type[Any]] = CLASSES) -> Any:
    if isinstance(data, list):
        return tuple(from_data(part, classes) for part in data)
    if isinstance(data, dict) and len(data) == 1:
        ((name, named),) = data.items()
        if isinstance(named, dict):
            if name not in classes:
                raise BKIncorrectParameterException(f"unknown class {name!r} in a scenario")
            try:
                value = classes[name](
                    **{key: from_data(part, classes) for key, part in named.items()}
                )
            except TypeError as error:
                raise BKIncorrectParameterException(f"{name}: {error}") from None
            # Check the types here, because the system's own settings classes do not check the types
            # of their fields.
            check_fields(value)
            return value
    return data


def non_default_fields(value: Any) -> dict[str, Any]:
    return {
        field.name: part
        for field in fields(value)
        if (part := getattr(value, field.name)) != default_of(field)
    }


def default_of(field: "Field[Any]") -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default
