"""Tests the Markdown documents: code blocks, links, and names of modules and functions."""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import nbformat
import pytest

from labkit.cli.main import main
from tests.tidy.test_style import ROOT, committed

CODE = re.compile(r" {4,}\S")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
"""Captures the path of a link to a file of the project."""
SITE = Path("tools/site")
"""The links between its pages are relative to the generated site."""


def indented_blocks(text: str) -> Iterator[list[str]]:
    """Yield the code blocks that have no fence: indented lines after an empty line."""
    parts = text.split("```")[::2]
    for part in parts:
        before = ""
        for is_code, group in groupby(part.splitlines(), lambda line: bool(CODE.match(line))):
            lines = list(group)
            if is_code and not before:
                yield lines
            before = lines[-1]


def test_the_lines_of_a_code_block_begin_in_one_column() -> None:
    crooked = [
        (path.name, lines[0])
        for path in committed()
        if path.suffix == ".md"
        for lines in indented_blocks((ROOT / path).read_text(encoding="utf-8"))
        if len({len(line) - len(line.lstrip()) for line in lines}) > 1
    ]
    assert crooked == []


def test_each_link_of_a_notebook_and_of_a_document_leads_to_a_file() -> None:
    lost = [
        (path.as_posix(), link)
        for path in committed()
        if path.suffix in (".md", ".ipynb") and not path.is_relative_to(SITE)
        for link in LINK.findall(text_of(ROOT / path))
        if not (ROOT / path).parent.joinpath(link).exists()
    ]
    assert lost == []


def test_the_architecture_names_modules_classes_and_functions_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    code = re.findall(
        r"`((?:system|worlds|views|course|cli)/[\w/.]*|[A-Z]\w+(?:\.\w+)?|[a-z]\w*)`", text
    )
    assert len(code) > 40
    lost, module = [], ""
    for name in code:
        if "/" in name:
            lost += [] if (ROOT / "labkit" / name).exists() else [name]
            module = (ROOT / "labkit" / name).read_text() if name.endswith(".py") else ""
        elif module:
            parts = name.split(".")
            lost += [name for part in parts if not re.search(rf"(?:class|def) {part}\b", module)]
    assert lost == []


def text_of(path: Path) -> str:
    """Return the part of the file's Markdown that is visible to readers."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


DOCUMENTS = sorted(
    path for path in committed() if path.suffix == ".md" and not path.is_relative_to(SITE)
)


def code_of(text: str) -> str:
    """The code spans and blocks of a document, each on a line of its own."""
    blocks = re.findall(r"```\w*\n(.*?)```", text, re.S)
    spans = re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", text, flags=re.S))
    return "\n".join(["\n".join(blocks), *(" ".join(span.split()) for span in spans)])


CODE_OF_ALL = "\n".join(code_of((ROOT / path).read_text(encoding="utf-8")) for path in DOCUMENTS)


def test_each_command_of_labkit_in_a_document_exists(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = set(re.findall(r"(?m)^(?:\$ |.*bin[/\\])?labkit ([a-z]\w*)", CODE_OF_ALL))
    shell = re.findall(r"labkit shell(?: --\w+ [\w./:]+)* ([a-z]\w+)", CODE_OF_ALL)
    tables = (ROOT / "docs/operators.md").read_text(encoding="utf-8").split("## ")[2]
    named = re.findall(r"(?m)^\| (`[a-z].*?) \|", tables)
    shell += [verb for cell in named for verb in re.findall(r"`([a-z]\w+)", cell)]
    assert len(verbs) >= 10
    assert len(set(shell)) > 20
    for words in (*((verb,) for verb in sorted(verbs)), *(("shell", each) for each in set(shell))):
        with pytest.raises(SystemExit) as ended:
            main([*words, "--help"])
        assert (words, ended.value.code) == (words, 0), capsys.readouterr().err


def test_each_target_of_make_in_a_document_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"(?m)^make (?:[A-Z]+=\S+ )?([a-z-]+)", CODE_OF_ALL))
    assert len(targets) > 10
    assert targets <= set(re.findall(r"(?m)^([a-z-]+):", makefile))


def test_each_module_that_a_document_runs_exists() -> None:
    modules = set(re.findall(r"python3? -m ((?:labkit|tests|tools|benchmarks)[\w.]*)", CODE_OF_ALL))
    assert len(modules) > 5
    assert [name for name in modules if not find_spec(name)] == []
