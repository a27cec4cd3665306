"""Configuration files of BookKeeper and Pulsar: lines of `key=value`."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import InvalidSettingException, Named, settings_by_key

_LINE = re.compile(r"([^=:\s]+)(?:\s*[=:]\s*|\s+)(.*)", re.DOTALL)
"""As in Java's properties, `=`, `:` or blanks end a key."""


_NO_LIMIT = -1
"""Any negative number of units."""


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _items(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


_CONVERSIONS: Mapping[object, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    float | None: float,
    bool: _boolean,
    Path | None: Path,
    tuple[str, ...]: _items,
}
"""By the type of the field."""


def read_configuration(path: Path) -> bytes:
    """The file's content.  Raises `BKIncorrectParameterException`, since an `OSError` would be
    taken for a failed disk.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BKIncorrectParameterException(f"{path} cannot be read: {error.strerror}") from None


def parse_properties(data: bytes, name: str) -> dict[str, str]:
    """The keys and values of the file called `name`.  Raises `BKIncorrectParameterException`, which
    names the line.
    """
    properties: dict[str, str] = {}
    for number, raw in enumerate(data.splitlines(), 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise BKIncorrectParameterException(f"{name}, line {number} is not UTF-8") from None
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            # Not the text itself: it may be a secret.
            raise BKIncorrectParameterException(f"{name}, line {number} is not key=value")
        key, value = found.groups()
        if properties.setdefault(key, value) != value:
            # BookKeeper would take the first value, Pulsar the last.
            raise BKIncorrectParameterException(
                f"{name}, line {number}: {key} has another value further up; remove one of the two"
            )
    return properties


def fields_in(properties: Mapping[str, str], kind: type) -> dict[str, Any]:
    """The fields of the settings class that the properties set; an empty value sets nothing.

    Raises `BKIncorrectParameterException`, which names the key.
    """
    found: dict[str, Any] = {}
    for key, (field, known) in settings_by_key(kind).items():
        if text := properties.get(key):
            try:
                value = _CONVERSIONS[field.type](text)
            except ValueError:
                raise BKIncorrectParameterException(
                    f"{key} is {text!r}; it must be a number (a switch: true or false)"
                ) from None
            if known.unit > 1:
                value = value * known.unit if value >= 0 else _NO_LIMIT
            found[field.name] = value
    return found


@contextmanager
def errors_name_keys(properties: Mapping[str, str], options: object = None) -> Iterator[None]:
    """Make an `InvalidSettingException` name what the user wrote instead of fields: the option if
    the command line set the field, otherwise the key in the file, with the value as written there.
    """
    try:
        yield
    except InvalidSettingException as error:
        named = {}
        for key, (field, _) in settings_by_key(type(error.settings)).items():
            value = getattr(error.settings, field.name)
            if getattr(options, field.name, None) is not None:
                named[field.name] = Named(f"--{field.name.replace('_', '-')}", value)
            else:
                named[field.name] = Named(key, properties.get(key) or value)
        raise BKIncorrectParameterException(error.message(named)) from None
