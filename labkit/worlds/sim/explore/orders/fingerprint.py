"""Computes a fingerprint of a program's memory. Two programs with the same fingerprint behave
identically.

A fingerprint covers the contents of objects: fields, closures, and the local variables of suspended
coroutines together with the instructions at which these coroutines wait. The fingerprint ignores
everything that merely identifies an object or reveals its age: addresses, times (all floats), and
the numbers of tasks and futures.

The traversal does not enter the simulation's own objects, which are the same for all programs.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from enum import Enum
from functools import partial
from hashlib import blake2b
from types import (
    BuiltinFunctionType,
    CellType,
    CoroutineType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any

from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.links import NetworkLink
from labkit.worlds.sim.machine.network import End, NodeNetwork, SimNetwork
from labkit.worlds.sim.machine.process import Process
from labkit.worlds.sim.nodes.nodes import SimNode
from labkit.worlds.sim.world import World

_ATOMIC = (int, str, bytes, type(None), Enum, type, ModuleType)
_WORLD_OBJECTS = (
    asyncio.AbstractEventLoop,
    asyncio.Handle,
    Context,
    Decisions,
    NetworkLink,
    SimNode,
    NodeNetwork,
    Process,
    Recorder,
    SimNetwork,
    World,
)
_NOT_STATE = ("_number", "_name", "__dict__", "__weakref__")
"""The numbers of tasks and futures reveal only when these were created."""


def fingerprint(roots: Iterable[Any]) -> bytes:
    walk = _Walk()
    for root in roots:
        walk.visit(root)
    return blake2b("\n".join(walk.found).encode(), digest_size=16).digest()


class _Walk:
    def __init__(self) -> None:
        self.found: list[str] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        """Temporary objects, kept alive so that no other object gets their addresses."""

    def visit(self, obj: Any) -> None:
        if isinstance(obj, float):
            self.found.append("float")
        elif isinstance(obj, _ATOMIC):
            self.found.append(repr(obj))
        elif isinstance(obj, _WORLD_OBJECTS):
            self.found.append(type(obj).__name__)
        elif (number := self._numbers.get(id(obj))) is not None:
            self.found.append(f"#{number}")
        else:
            self._numbers[id(obj)] = len(self._numbers)
            self._kept.append(obj)
            self.found.append(f"{type(obj).__name__}(")
            self._visit_children(obj)
            self.found.append(")")

    def _visit_children(self, obj: Any) -> None:
        for kind, children in _CHILDREN:
            if isinstance(obj, kind):
                for part in children(obj):
                    self.visit(part)
                return
        for name, value in _fields_of(obj):
            self.found.append(name)
            self.visit(value)


def _fields_of(obj: Any) -> list[tuple[str, Any]]:
    fields = [*getattr(obj, "__dict__", {}).items()]
    for kind in type(obj).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        fields += [(name, getattr(obj, name)) for name in names if hasattr(obj, name)]
    return [field for field in fields if field[0] not in _NOT_STATE]


def _coroutine(obj: Any) -> Iterable[Any]:
    yield obj.__qualname__
    frame = obj.cr_frame if isinstance(obj, CoroutineType) else obj.gi_frame
    if frame is not None:
        yield frame.f_lasti
        yield dict(frame.f_locals)
        yield obj.cr_await if isinstance(obj, CoroutineType) else obj.gi_yieldfrom


def _future(obj: Any) -> Iterable[Any]:
    yield obj._state
    yield obj._result if obj._exception is None else obj._exception
    yield [callback for callback, _ in obj._callbacks or ()]
    if isinstance(obj, asyncio.Task):
        yield obj.get_coro()
        yield getattr(obj, "_fut_waiter")  # noqa: B009 - unknown to mypy
    yield dict(_fields_of(obj))


def _mapping(obj: dict[Any, Any]) -> Iterable[Any]:
    """Yield the keys and values, sorted by key if the keys can be sorted reproducibly."""
    items = list(obj.items())
    if all(isinstance(key, int | str | bytes | tuple) for key in obj):
        items.sort(key=lambda item: repr(item[0]))
    for item in items:
        yield from item


def _set(obj: Iterable[Any]) -> Iterable[Any]:
    """Return the elements in a reproducible order; tasks and futures are in the order of their
    creation.
    """
    return sorted(obj, key=lambda each: getattr(each, "_number", None) or repr(each))


def _function(obj: FunctionType) -> Iterable[Any]:
    yield obj.__qualname__
    yield obj.__code__.co_firstlineno
    yield from obj.__closure__ or ()
    yield from obj.__defaults__ or ()


def _cell(obj: CellType) -> Iterable[Any]:
    try:
        return (obj.cell_contents,)
    except ValueError:
        return ()


_CHILDREN: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (End, lambda obj: (obj.outgoing.name, obj.is_open, obj.waiting)),
    ((tuple, list, deque), iter),
    (dict, _mapping),
    ((set, frozenset), _set),
    (asyncio.Future, _future),
    ((CoroutineType, GeneratorType), _coroutine),
    (MethodType, lambda obj: (obj.__func__, obj.__self__)),
    (FunctionType, _function),
    (BuiltinFunctionType, lambda obj: (obj.__qualname__, obj.__self__)),
    (CellType, _cell),
    (partial, lambda obj: (obj.func, obj.args, obj.keywords)),
    (BaseException, lambda obj: obj.args),
)
