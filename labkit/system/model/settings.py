"""Settings: fields of a frozen dataclass, declared with their ranges and configuration file keys.

    @dataclass(frozen=True, slots=True)
    class JournalConfig:
        max_size_mb: int = setting(2048, "journalMaxSizeMB", at_least=1)
        max_backups: int = setting(5, "journalMaxBackups", at_least=0)

        def __post_init__(self) -> None:
            check_ranges(self)

Each key and range is declared once, next to its field. The message of `InvalidSettingException`
contains field names. Code that reads the settings from a file replaces these names with the keys
used in the file.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple

from labkit.system.model.errors import BKIncorrectParameterException

_REQUIRED: Any = object()
_SETTING = "setting"


@dataclass(frozen=True, slots=True)
class Setting:
    """The configuration file key and the range of a field.

    `key` is "" if a configuration file cannot set the field. The value in the file is multiplied
    by `unit`, for example by 1000 if the file uses seconds and the field uses milliseconds.
    """

    key: str
    unit: int = 1
    at_least: float | None = None
    at_most: float | None = None
    multiple_of: int = 1
    or_else: float | None = None
    """An additional allowed value outside the range, such as -1 for "no limit"."""

    def allows(self, value: Any) -> bool:
        return value == self.or_else or (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.multiple_of == 1 or value % self.multiple_of == 0)
        )

    @property
    def range(self) -> str:
        words = f"at least {self.at_least}"
        if self.at_most is not None:
            words += f" and at most {self.at_most}"
        if self.multiple_of > 1:
            words += f", and a multiple of {self.multiple_of}"
        return words if self.or_else is None else f"{words}, or {self.or_else}"


def setting(default: Any = _REQUIRED, key: str = "", **known: Any) -> Any:
    """Declare a field of a dataclass. `known` contains values for the fields of `Setting`."""
    metadata = {_SETTING: Setting(key, **known)}
    return (
        field(metadata=metadata)
        if default is _REQUIRED
        else field(default=default, metadata=metadata)
    )


def settings_by_key(kind: type) -> Mapping[str, tuple[Field[Any], Setting]]:
    """Return the fields that a configuration file can set, keyed by their names in the file."""
    found = ((it, it.metadata.get(_SETTING)) for it in fields(kind))
    return {known.key: (it, known) for it, known in found if known and known.key}


def check_ranges(settings: Any) -> None:
    """Raise `InvalidSettingException` for the first field that is out of range."""
    for it in fields(settings):
        known: Setting | None = it.metadata.get(_SETTING)
        if known and not known.allows(getattr(settings, it.name)):
            raise InvalidSettingException(settings, f"{{{it.name}}}; it must be {known.range}")


class Named(NamedTuple):
    """Determines how an error message refers to a field. In a rule, `{field}` is replaced with
    "name is value", `{field.name}` with the name, and `{field.value}` with the value.
    """

    name: str
    value: object

    def __str__(self) -> str:
        return f"{self.name} is {self.value}"


class InvalidSettingException(BKIncorrectParameterException):
    """`rule` is a template for the message, which contains field names of `settings` in braces (see
    `Named`).
    """

    def __init__(self, settings: Any, rule: str) -> None:
        super().__init__(settings, rule)
        self.settings = settings
        self.rule = rule

    def __str__(self) -> str:
        return self.message({})

    def message(self, named: Mapping[str, Named]) -> str:
        """Return the error message. `named` overrides the names and values of some fields."""
        own = {
            it.name: Named(it.name, getattr(self.settings, it.name)) for it in fields(self.settings)
        }
        return self.rule.format_map({**own, **named})
