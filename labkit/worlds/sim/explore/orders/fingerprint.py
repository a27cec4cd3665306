"""A fingerprint of a program's memory: programs with equal fingerprints go on in the same way.

It covers objects as they are: fields, closures, and the local variables of suspended coroutines
with the places where these wait.  It ignores what only names an object or tells its age: addresses,
times (all floats), and numbers of tasks and futures.

The walk stops at the world: the simulation's own objects are the same for all.
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

_PLAIN = (int, str, bytes, type(None), Enum, type, ModuleType)
_OF_THE_WORLD = (
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
"""The numbers of tasks and futures show only when they were created."""


def fingerprint(roots: Iterable[Any]) -> bytes:
    """The fingerprint of everything that can be reached from these objects, in this order."""
    walk = _Walk()
    for root in roots:
        walk.visit(root)
    return blake2b("\n".join(walk.found).encode(), digest_size=16).digest()


class _Walk:
    def __init__(self) -> None:
        self.found: list[str] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []
        """Temporary objects, kept so that no other object gets their addresses."""

    def visit(self, what: Any) -> None:
        """Record the object and everything it refers to, each object once."""
        if isinstance(what, float):
            self.found.append("float")
        elif isinstance(what, _PLAIN):
            self.found.append(repr(what))
        elif isinstance(what, _OF_THE_WORLD):
            self.found.append(type(what).__name__)
        elif (number := self._numbers.get(id(what))) is not None:
            self.found.append(f"#{number}")
        else:
            self._numbers[id(what)] = len(self._numbers)
            self._kept.append(what)
            self.found.append(f"{type(what).__name__}(")
            self._look_into(what)
            self.found.append(")")

    def _look_into(self, what: Any) -> None:
        for kind, look in _LOOKS:
            if isinstance(what, kind):
                for part in look(what):
                    self.visit(part)
                return
        for name, value in _fields_of(what):
            self.found.append(name)
            self.visit(value)


def _fields_of(what: Any) -> list[tuple[str, Any]]:
    fields = [*getattr(what, "__dict__", {}).items()]
    for kind in type(what).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names = (slots,) if isinstance(slots, str) else slots
        fields += [(name, getattr(what, name)) for name in names if hasattr(what, name)]
    return [field for field in fields if field[0] not in _NOT_STATE]


def _coroutine(what: Any) -> Iterable[Any]:
    yield what.__qualname__
    frame = what.cr_frame if isinstance(what, CoroutineType) else what.gi_frame
    if frame is not None:
        yield frame.f_lasti
        yield dict(frame.f_locals)
        yield what.cr_await if isinstance(what, CoroutineType) else what.gi_yieldfrom


def _future(what: Any) -> Iterable[Any]:
    yield what._state
    yield what._result if what._exception is None else what._exception
    yield [callback for callback, _ in what._callbacks or ()]
    if isinstance(what, asyncio.Task):
        yield what.get_coro()
        yield getattr(what, "_fut_waiter")  # noqa: B009 - mypy does not know it
    yield dict(_fields_of(what))


def _mapping(what: dict[Any, Any]) -> Iterable[Any]:
    """Visit a dictionary, sorted by its keys if they have an order independent of insertion."""
    items = list(what.items())
    if all(isinstance(key, int | str | bytes | tuple) for key in what):
        items.sort(key=lambda item: repr(item[0]))
    for item in items:
        yield from item


def _set(what: Iterable[Any]) -> Iterable[Any]:
    """Visit a set; tasks and futures in the order in which they were created."""
    return sorted(what, key=lambda each: getattr(each, "_number", None) or repr(each))


def _end(what: End) -> Iterable[Any]:
    return what.way_out.name, what.is_open, what.waiting


def _exception(what: BaseException) -> Iterable[Any]:
    return what.args


def _function(what: FunctionType) -> Iterable[Any]:
    yield what.__qualname__
    yield what.__code__.co_firstlineno
    yield from what.__closure__ or ()
    yield from what.__defaults__ or ()


def _built_in(what: BuiltinFunctionType) -> Iterable[Any]:
    return what.__qualname__, what.__self__


def _cell(what: CellType) -> Iterable[Any]:
    try:
        return (what.cell_contents,)
    except ValueError:
        return ()


_LOOKS: tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...] = (
    (End, _end),
    ((tuple, list, deque), iter),
    (dict, _mapping),
    ((set, frozenset), _set),
    (asyncio.Future, _future),
    ((CoroutineType, GeneratorType), _coroutine),
    (MethodType, lambda what: (what.__func__, what.__self__)),
    (FunctionType, _function),
    (BuiltinFunctionType, _built_in),
    (CellType, _cell),
    (partial, lambda what: (what.func, what.args, what.keywords)),
    (BaseException, _exception),
)
