"""Configuration files of BookKeeper and Pulsar: lines of `key=value`."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from labkit.system.model.errors import BKIncorrectParameterException

T = TypeVar("T")

Keys = Mapping[str, tuple[str, Callable[[str], Any]]]
"""For each key of the file: the field of a settings class, and the function that reads the
value.
"""


_LINE = re.compile(r"([^=:\s]+)(?:\s*[=:]\s*|\s+)(.*)", re.DOTALL)
"""As in Java's properties, `=`, `:` or blanks end a key."""


def boolean(text: str) -> bool:
    """Whether a switch is on.  Raises `ValueError` for anything but true and false."""
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


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


def values(properties: Mapping[str, str], keys: Keys) -> dict[str, Any]:
    """The fields that the properties set; a key without a value sets nothing.

    Raises `BKIncorrectParameterException`, which names the key.
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


def configured(make: Callable[..., T], keys: Keys, properties: Mapping[str, str]) -> T:
    """The settings that `make` makes from the fields in the file.

    Raises `BKIncorrectParameterException`, which names keys of the file, not fields.
    """
    fields = values(properties, keys)
    with naming(keys, properties):
        return make(**fields)


@contextmanager
def naming(keys: Keys, properties: Mapping[str, str], options: object = None) -> Iterator[None]:
    """Let a `BKIncorrectParameterException` name, in place of a field, what the user wrote: the
    option of the command line if it sets the field, else the file's key, with the value as written.
    """
    key_of = {field: key for key, (field, _) in keys.items()}
    fields = re.compile(rf"\b({'|'.join(key_of)})\b( is [^\s,;:]+)?")

    def written(found: re.Match[str]) -> str:
        field, value = found.groups(default="")
        if getattr(options, field, None) is not None:
            return f"--{field.replace('_', '-')}{value}"
        key = key_of[field]
        return key + (f" is {properties[key]}" if value and properties.get(key) else value)

    try:
        yield
    except BKIncorrectParameterException as error:
        raise BKIncorrectParameterException(fields.sub(written, str(error))) from None
