"""Encodes values as JSON to send them between a trial and the sandbox.

Numbers, strings, booleans, None and lists are encoded directly. Every other value becomes an object
with a single key, which names the value's type. Instances of labkit's own classes from `MODULES`
are encoded field by field. Nothing is ever unpickled, so a message from a submission can only
become one of these values.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any

MODULES = (
    "labkit.course.grading.frames",
    "labkit.system.model.entry",
    "labkit.system.model.message_id",
    "labkit.system.broker.config",
    "labkit.system.storage.config",
    "labkit.system.storage.garbage",
    "labkit.system.storage.log_mark",
    "labkit.system.topic.config",
    "labkit.system.trace.events",
    "labkit.worlds.sim.settings.cluster",
    "labkit.worlds.sim.scenario.faults",
    "labkit.worlds.sim.settings.triggers",
    "labkit.worlds.sim.scenario.scenario",
    "labkit.worlds.sim.workload.steps",
)

PLAIN = (type(None), bool, int, float, str)
_SEQUENCES: dict[str, Callable[..., Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class EncodingError(Exception):
    """Raised if a value cannot be encoded, or if an encoded form is invalid."""


def encode_value(value: Any, call: Callable[[Any], int] | None = None) -> Any:
    """Encode a value as JSON. `call` registers a function and returns the number of the function.

    Raises `EncodingError`.
    """

    def pack(value: Any) -> Any:
        kind = type(value)
        if kind in PLAIN:
            return value
        if kind is list:
            return [pack(each) for each in value]
        if kind.__name__ in _SEQUENCES and kind.__module__ == "builtins":
            return {kind.__name__: [pack(each) for each in value]}
        if isinstance(value, bytes | bytearray):
            return {"bytes": b64encode(value).decode()}
        if kind.__module__ in MODULES:
            return {"value": [kind.__module__, kind.__qualname__, _parts(value, pack)]}
        if isinstance(value, Mapping):
            return {"dict": [[pack(key), pack(each)] for key, each in value.items()]}
        if callable(value) and call is not None:
            return {"call": call(value)}
        raise EncodingError(f"a {kind.__name__} cannot be passed between processes")

    return pack(value)


def _parts(value: Any, pack: Callable[[Any], Any]) -> Any:
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value):
        return {each.name: pack(getattr(value, each.name)) for each in fields(value) if each.init}
    if isinstance(value, tuple):
        return [pack(each) for each in value]
    raise EncodingError(f"a {type(value).__name__} cannot be passed between processes")


def decode_value(form: Any, call: Callable[[int], Any] | None = None) -> Any:
    """Decode a value. `call` returns the function with the given number.

    Raises `EncodingError` if `encode_value` could not have produced this form.
    """
    try:
        return _decode(form, call)
    except EncodingError:
        raise
    except Exception as error:
        # A class's constructor may reject its arguments with any exception.
        raise EncodingError(f"invalid value: {type(error).__name__}: {error}") from error


def _decode(form: Any, call: Callable[[int], Any] | None) -> Any:
    if isinstance(form, list):
        return [_decode(each, call) for each in form]
    if not isinstance(form, dict):
        return form
    [(kind, inside)] = form.items()
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](_decode(each, call) for each in inside)
    if kind == "bytes":
        return b64decode(inside, validate=True)
    if kind == "dict":
        return {_decode(key, call): _decode(each, call) for key, each in inside}
    if kind == "call" and call is not None:
        return call(inside)
    if kind == "value":
        module, name, parts = inside
        return _made(_class_of(module, name), parts, call)
    raise EncodingError(f"unknown kind of value {kind!r}")


def _class_of(module: str, name: str) -> type:
    found = getattr(import_module(module), name, None) if module in MODULES else None
    if not isinstance(found, type) or found.__module__ != module:
        raise EncodingError(f"a {module}.{name} cannot be passed between processes")
    return found


def _made(kind: type, parts: Any, call: Callable[[int], Any] | None) -> Any:
    if issubclass(kind, Enum):
        return kind[parts]
    if is_dataclass(kind):
        return kind(**{name: _decode(each, call) for name, each in parts.items()})
    if issubclass(kind, tuple):
        return kind(*(_decode(each, call) for each in parts))
    raise EncodingError(f"a {kind.__name__} cannot be passed between processes")
