"""Parses configuration files of BookKeeper and Pulsar: lines of `key=value`."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.settings import InvalidSettingException, Named, settings_by_key

_LINE = re.compile(r"([^=:\s]+)(?:\s*[=:]\s*|\s+)(.*)", re.DOTALL)
"""As in Java's properties files, `=`, `:` or whitespace separates a key from its value."""


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


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
"""Conversions from text by the type of the field."""


def read_configuration(path: Path) -> bytes:
    """Return the file's contents.

    Raises `BKIncorrectParameterException` rather than `OSError`, because callers interpret an
    `OSError` as a failed disk.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BKIncorrectParameterException(f"{path} cannot be read: {error.strerror}") from None


def parse_properties(data: bytes, name: str) -> dict[str, str]:
    """Parse the file called `name`. Raises `BKIncorrectParameterException`."""
    properties: dict[str, str] = {}
    for number, raw in enumerate(data.splitlines(), 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise BKIncorrectParameterException(
                f"{name}, line {number} is not valid UTF-8"
            ) from None
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        found = _LINE.fullmatch(text)
        if found is None:
            # Do not show the text, because it may be a secret.
            raise BKIncorrectParameterException(
                f"{name}, line {number} is not of the form key=value"
            )
        key, value = found.groups()
        if properties.setdefault(key, value) != value:
            # BookKeeper would use the first value, Pulsar the last.
            raise BKIncorrectParameterException(
                f"{name}, line {number}: {key} is already set to another value; remove one of them"
            )
    return properties


def fields_in(properties: Mapping[str, str], kind: type) -> dict[str, Any]:
    """Return the values that the properties set for the fields of the settings class `kind`, by
    field name.

    A property with an empty value is treated as if it were not set. Raises
    `BKIncorrectParameterException`, whose message names the invalid key.
    """
    found: dict[str, Any] = {}
    for key, (field, spec) in settings_by_key(kind).items():
        if text := properties.get(key):
            try:
                value = _CONVERSIONS[field.type](text)
            except ValueError:
                raise BKIncorrectParameterException(
                    f"{key} is {text!r};"
                    f" expected {'true or false' if field.type is bool else 'a number'}"
                ) from None
            if spec.unit > 1:
                value = value * spec.unit if value >= 0 else -1  # -1 means "no limit".
            found[field.name] = value
    return found


@contextmanager
def explain_setting_errors(properties: Mapping[str, str], options: object = None) -> Iterator[None]:
    """Rewrite an `InvalidSettingException` so that it names options or keys instead of fields.

    If the field was set on the command line, the new message names the option. Otherwise it names
    the key in the file and the key's value.
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
