"""No code uses a private name of a class that is defined in another module.

Planted bugs and lessons change the real code by overriding its methods. The methods that they
override have no leading underscore, so that a reader can see where this may happen.
"""

import ast
import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

_OF_NAMEDTUPLE = {"_asdict", "_field_defaults", "_fields", "_make", "_replace"}
_OF_ASYNCIO = {
    name
    for kind in (asyncio.Handle, asyncio.TimerHandle, asyncio.Future, asyncio.Task)
    for name in dir(kind)
}
"""The simulated event loop replaces asyncio's, whose internal attributes have no public names."""

_OF_LIBRARIES = {
    "_handle_custom_msg": "ipywidgets: what a message from the browser calls",
    "_connection": "kazoo: its socket is the only way to break a connection",
    "_socket": "kazoo: as above",
    "_jvm": "pyspark: which versions run in the JVM",
}
"""Private names of libraries without a public alternative, and why the tests need them."""

_OURS = ("self", "cls")
_FOLDERS = ("labkit", "tests", "benchmarks")
ClassId = tuple[str, str]


@dataclass
class ClassSource:
    """The base classes of a class as expressions, the private names that it defines, and the
    private names that it uses on `self`.
    """

    bases: list[ast.expr]
    defined: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)


@dataclass
class ModuleSource:
    """The classes of a module, and the module and name from which each imported name comes."""

    tree: ast.Module
    classes: dict[str, ClassSource] = field(default_factory=dict)
    imported: dict[str, tuple[str, str]] = field(default_factory=dict)


def is_private(name: str) -> bool:
    """Return whether the name has a single leading underscore.

    Names such as `_name_` are hooks of a library, and `__name` is mangled.
    """
    return name.startswith("_") and not name.startswith("__") and not name.endswith("_")


def read(text: str) -> ModuleSource:
    module = ModuleSource(ast.parse(text))
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module.imported[alias.asname or alias.name] = (node.module or "", alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                module.imported[alias.asname or alias.name.partition(".")[0]] = (alias.name, "")
        elif isinstance(node, ast.ClassDef):
            module.classes[node.name] = read_class(node)
    return module


def read_class(node: ast.ClassDef) -> ClassSource:
    found = ClassSource(node.bases)
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.defined.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                found.defined.add(name)
    for part in ast.walk(node):
        if isinstance(part, ast.Attribute) and is_on_self(part):
            found.used.add(part.attr)
            if isinstance(part.ctx, ast.Store):
                found.defined.add(part.attr)
    found.defined = set(filter(is_private, found.defined))
    found.used = set(filter(is_private, found.used))
    return found


def is_on_self(part: ast.Attribute) -> bool:
    match part.value:
        case ast.Name(id=name):
            return name in _OURS
        case ast.Call(func=ast.Name(id="super")):
            return True
    return False


def resolve(modules: Mapping[str, ModuleSource], where: str, base: ast.expr) -> ClassId | None:
    """Return the project's class to which this expression refers, or None."""
    module = modules[where]
    match base:
        case ast.Subscript(value=value):
            return resolve(modules, where, value)
        case ast.Name(id=name) if name in module.classes:
            return where, name
        case ast.Name(id=name) if name in module.imported:
            return module.imported[name]
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in module.imported:
            return ".".join(filter(None, module.imported[name])), attr
    return None


def private_of_foreign_bases(modules: Mapping[str, ModuleSource], at: ClassId) -> dict[str, str]:
    """Return the private names that the class inherits from other modules, each with its class."""
    found: dict[str, str] = {}
    pending, seen = [at], {at}
    while pending:
        where, name = pending.pop()
        for base in modules[where].classes[name].bases:
            parent = resolve(modules, where, base)
            if parent is None or parent in seen or parent[0] not in modules:
                continue
            if parent[1] not in modules[parent[0]].classes:
                continue
            seen.add(parent)
            pending.append(parent)
            if parent[0] != at[0]:
                defined = modules[parent[0]].classes[parent[1]].defined
                found.update(dict.fromkeys(defined, ".".join(parent)))
    return found


def bent(modules: Mapping[str, ModuleSource]) -> Iterator[str]:
    """Yield classes that override or use a private name of a class in another module."""
    for where, module in modules.items():
        for name, source in module.classes.items():
            inherited = private_of_foreign_bases(modules, (where, name))
            for private in sorted(inherited.keys() & (source.defined | source.used)):
                yield f"{where}.{name}: {private} is {inherited[private]}'s"


def reached_into(modules: Mapping[str, ModuleSource]) -> Iterator[str]:
    """Yield places that import a private name, or use one on an object from another module."""
    for where, module in modules.items():
        own = {name for source in module.classes.values() for name in source.defined}
        own |= _OF_NAMEDTUPLE | _OF_ASYNCIO
        for name, (source, private) in module.imported.items():
            if is_private(private) and source.partition(".")[0] in _FOLDERS:
                yield f"{where}: {name} is {source}.{private}"
        for part in ast.walk(module.tree):
            if not isinstance(part, ast.Attribute) or not is_private(part.attr):
                continue
            if is_on_self(part) or part.attr in own or is_library(module, part.value):
                continue
            yield f"{where}, line {part.lineno}: {ast.unparse(part)}"


def is_library(module: ModuleSource, value: ast.expr) -> bool:
    """Return whether the expression refers to a module outside the project."""
    while isinstance(value, ast.Attribute):
        value = value.value
    if not isinstance(value, ast.Name) or value.id not in module.imported:
        return False
    source, name = module.imported[value.id]
    return not name and not source.startswith("labkit")


@cache
def modules_of(folder: str) -> dict[str, ModuleSource]:
    """Return all modules in a folder, except generated ones and the sources of notebooks."""
    found = {}
    for file in sorted((ROOT / folder).rglob("*.py")):
        parts = file.relative_to(ROOT).with_suffix("").parts
        if not file.stem.endswith("_pb2") and "source" not in parts:
            text = file.read_text(encoding="utf-8")
            found[".".join(parts).removesuffix(".__init__")] = read(text)
    return found


@pytest.mark.slow
def test_no_class_overrides_or_uses_a_private_name_of_another_modules_class() -> None:
    assert list(bent(modules_of("labkit") | modules_of("tests"))) == []


@pytest.mark.slow
def test_no_object_is_asked_for_a_private_name_of_another_modules_class() -> None:
    assert list(reached_into(modules_of("labkit"))) == []


@pytest.mark.slow
def test_tests_and_benchmarks_use_public_names_alone() -> None:
    """A test that uses private names fails after a refactoring although no promise is broken."""
    found = [
        place
        for place in reached_into(modules_of("tests") | modules_of("benchmarks"))
        if place.rpartition(".")[2] not in _OF_LIBRARIES
    ]
    assert found == []
