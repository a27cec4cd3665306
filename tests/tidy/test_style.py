"""Tests the project's style rules: imports, sizes, and contents that must not be committed."""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LESSONS = Path("notebooks/source")

# Each of these patterns matches details of a particular machine or network.
PRIVATE = re.compile(
    rb"(?<![\w.~)}-])/(?:root|work|home|Users|tmp)/"
    rb"|\bpypi\.org|pythonhosted\.org|repo1?\.maven|registry\.npmjs|\bcrates\.io|proxy\.golang"
    rb"|\bdeb\.debian|conda\.anaconda"
)


@cache
def committed() -> tuple[Path, ...]:
    """Return the project's files (tracked, or untracked and not ignored), sorted by relative path.

    The paths are relative, so that no rule depends on the folder in which the project is located.
    """
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git clone, so nothing says which files are the project's")
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    files = (Path(name) for name in listing.split("\0") if name)
    return tuple(sorted(file for file in files if (ROOT / file).is_file()))


def names(files: list[Path]) -> list[str]:
    """Return the paths as text, so that messages are short and stable."""
    return [str(file) for file in files]


def sources() -> list[Path]:
    """Return the Python files written by hand: no generated modules, no sources of notebooks."""
    python = [f for f in committed() if f.suffix == ".py" and not f.stem.endswith("_pb2")]
    return [f for f in python if f.parent != LESSONS]


def test_imports_follow_the_rules_of_pyproject() -> None:
    run = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_no_committed_file_names_a_machine_or_a_package_registry() -> None:
    assert names([file for file in committed() if PRIVATE.search((ROOT / file).read_bytes())]) == []


@pytest.mark.parametrize("file", ["ARCHITECTURE.md", "labkit/__init__.py"])
def test_the_map_names_exactly_the_packages_that_exist(file: str) -> None:
    text = (ROOT / file).read_text()
    # The map shows a package as an indented `name/`; other sentences write `labkit/name/`.
    found = re.findall(r"(?m)^[ \t]+([a-z]\w*)/(?=\s|$)|\blabkit/([a-z]\w*)/", text)
    mapped = {indented or inline for indented, inline in found}
    existing = {f.parent.name for f in committed() if f.match("labkit/*/__init__.py")}
    assert mapped == existing


def test_notebooks_store_no_widget_state() -> None:
    notebooks = [file for file in committed() if file.suffix == ".ipynb"]
    stored = [n for n in notebooks if "widgets" in json.loads((ROOT / n).read_text())["metadata"]]
    assert names(stored) == []


def essays() -> list[Path]:
    """Return the `__init__.py` of each package whose modules are written by hand."""
    inits = sorted((ROOT / "labkit").rglob("__init__.py"))
    return [init for init in inits if init.parent.name not in ("proto", "widgets")]


@pytest.mark.parametrize("essay", essays(), ids=lambda file: file.parent.name)
def test_every_module_stands_in_its_packages_essay(essay: Path) -> None:
    text = ast.get_docstring(ast.parse(essay.read_text())) or ""
    modules = [file.stem for file in essay.parent.glob("*.py") if not file.stem.startswith("__")]
    packages = [init.parent.name for init in essay.parent.glob("*/__init__.py")]
    unnamed = [n for n in (*modules, *packages) if not re.search(rf"\b{n}\b", text)]
    assert sorted(unnamed) == []
