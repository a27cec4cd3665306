"""Configuration files of BookKeeper and Pulsar: lines of `key=value`."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from labkit.model.errors import BKIncorrectParameterException

Keys = Mapping[str, tuple[str, Callable[[str], Any]]]
"""By the key in the file: the field of a settings class, and what reads its value."""


def boolean(text: str) -> bool:
    """Whether a switch is on.  Raises `ValueError` for anything but true and false."""
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def read_configuration(path: Path) -> bytes:
    """What is in the file.  Raises `BKIncorrectParameterException`: an `OSError` would be taken for
    a failed disk.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BKIncorrectParameterException(f"{path} cannot be read: {error.strerror}") from None


def parse_properties(data: bytes, name: str) -> dict[str, str]:
    """What the file of that name says.  Raises `BKIncorrectParameterException` naming the line."""
    properties: dict[str, str] = {}
    for number, raw in enumerate(data.splitlines(), 1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            raise BKIncorrectParameterException(
                f"{name}, line {number}: {raw!r} is not UTF-8"
            ) from None
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, separator, value = text.partition("=")
        if not separator:
            raise BKIncorrectParameterException(f"{name}, line {number}: {text!r} is no key=value")
        key, value = key.strip(), value.strip()
        if properties.setdefault(key, value) != value:
            # BookKeeper takes the first of them, Pulsar the last.
            raise BKIncorrectParameterException(
                f"{name}, line {number}: {key} has another value further up; remove one of the two"
            )
    return properties


def values(properties: Mapping[str, str], keys: Keys) -> dict[str, Any]:
    """The fields that they set; a key without a value sets nothing.

    Raises `BKIncorrectParameterException` naming the key.
    """
    found = {}
    for key, (field, convert) in keys.items():
        if properties.get(key):
            try:
                found[field] = convert(properties[key])
            except ValueError:
                raise BKIncorrectParameterException(
                    f"{key} is {properties[key]!r}; it must be a number (a switch: true or false)"
                ) from None
    return found
