"""Tests that all imported packages are declared, and that text files are read with an encoding."""

import ast
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tidy.test_environment import PROJECT, ROOT

OWN = {"benchmarks", "labkit", "tests", "tools"}
MAIN = PROJECT["dependencies"]
TEST = PROJECT["optional-dependencies"]["test"]
BENCH = PROJECT["optional-dependencies"]["bench"]
SITE = PROJECT["optional-dependencies"]["site"]


def named(line: str) -> Iterator[str]:
    """Yield the package in a dependency line, and the packages that its extras require."""
    requirement = Requirement(line)
    yield requirement.name
    if requirement.extras:
        for needed in map(Requirement, requires(requirement.name) or []):
            if needed.marker and any(
                needed.marker.evaluate({"extra": e}) for e in requirement.extras
            ):
                yield needed.name


def imported(file: Path) -> Iterator[str]:
    """Yield the top-level packages that a file imports, including imports inside functions."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        else:
            continue
        yield from (name.partition(".")[0] for name in names)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("folder", "declared"),
    [
        ("labkit", MAIN),
        ("tools", MAIN + TEST + SITE),
        ("tests", MAIN + TEST),
        ("benchmarks", MAIN + TEST + BENCH),
    ],
)
def test_every_import_is_declared(folder: str, declared: list[str]) -> None:
    names = {canonicalize_name(name) for line in declared for name in named(line)}
    files = sorted((ROOT / folder).rglob("*.py"))
    beside = {file.stem for file in files} | {file.parent.name for file in files}
    distributions = packages_distributions()
    missing = {
        f"{file.relative_to(ROOT)}: {package}"
        for file in files
        for package in imported(file)
        if package not in sys.stdlib_module_names | OWN | beside
        and not names.intersection(map(canonicalize_name, distributions.get(package, [package])))
    }
    assert sorted(missing) == []


def calls(file: Path) -> Iterator[ast.Call]:
    """Yield the calls that read or write text."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        mode = next((a.value for a in node.args if isinstance(a, ast.Constant)), "")
        is_file = name == "fdopen" or (name == "open" and isinstance(node.func, ast.Name))
        is_file |= name == "open" and str(mode)[:1] in {"r", "w", "a", "x"} and len(str(mode)) < 4
        if name in {"read_text", "write_text"} or (is_file and "b" not in str(mode)):
            yield node


@pytest.mark.slow
def test_text_files_name_their_encoding_as_windows_has_another_default() -> None:
    silent = [
        f"{file.relative_to(ROOT)}:{call.lineno}"
        for file in sorted((ROOT / "labkit").rglob("*.py"))
        if file.parent.name != "source"  # Lessons read only their own files.
        for call in calls(file)
        if "encoding" not in {keyword.arg for keyword in call.keywords}
    ]
    assert silent == []
