"""Generates the page that lists all promises, each of which is verified by a test or a script."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tools.site.pyodide import ROOT

_SECTIONS = {
    "tests/interop": "With Apache's own software",
    "tests/system/broker": "The broker",
    "tests/system/topic": "Topics",
    "tests/system/client": "The client",
    "tests/system/bookie": "The bookie",
    "tests/system/storage": "A bookie's storage",
    "tests/system/metadata": "Metadata",
    "tests/system/autorecovery": "Autorecovery",
    "tests/system": "Other parts of the system",
    "tests/worlds/live": "Real processes",
    "tests/worlds": "The simulated world",
    "tests": "Tools and tests",
}
"""The start of a test's path, and the section of its promises; the first match counts."""

_INTRODUCTION = """\
# What labkit promises

Each sentence is a promise, followed by the test that shows it, or by the scenario of a test script.
Run one of them with `.venv/bin/python -m pytest PATH -k NAME`; the scenarios in a `.txt` file are
run by the file `test_scripts.py` next to it.
"""


def promises_page() -> str:
    found = defaultdict[str, list[str]](list)
    tests = [(path, promises_of(path)) for path in (ROOT / "tests").rglob("test_*.py")]
    tests += [(path, promises_in_script(path)) for path in (ROOT / "tests").rglob("*.txt")]
    for path, promises in sorted(tests, key=lambda each: each[0]):
        name = path.relative_to(ROOT).as_posix()
        section = next(title for start, title in _SECTIONS.items() if name.startswith(start))
        for sentence, test in promises:
            found[section].append(f"- {sentence}.<br>`{name} {test}`")
    sections = [
        f"## {title}\n\n" + "\n".join(found[title]) + "\n"
        for title in _SECTIONS.values()
        if found[title]
    ]
    return "\n".join([_INTRODUCTION, *sections])


def promises_of(path: Path) -> Iterator[tuple[str, str]]:
    """For each test in the module that has the marker, yield the sentence of the promise and the
    name of the test.
    """
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        for decorator in getattr(node, "decorator_list", ()):
            if ast.unparse(decorator).startswith("pytest.mark.promise("):
                yield ast.literal_eval(decorator.args[0]), getattr(node, "name", "")


def promises_in_script(path: Path) -> Iterator[tuple[str, str]]:
    """For each scenario of a test script that makes a promise, yield the sentence of the promise
    and the title of the scenario.
    """
    title = ""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            title = line.removeprefix("== ")
        elif line.startswith("promise: "):
            yield line.removeprefix("promise: "), title
