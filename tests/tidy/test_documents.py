"""The documents' Markdown says what its author meant."""

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import nbformat

from tests.tidy.test_style import ROOT, committed

CODE = re.compile(r" {4,}\S")
LINK = re.compile(r"\]\((?![a-z]+:|#)([^)#\s]+)")
"""The path of a link that leads to a file of the project."""
SITE = Path("tools/site")
"""Its pages link to each other as they lie in the site."""


def indented_blocks(text: str) -> Iterator[list[str]]:
    """The code blocks without a fence: indented lines behind an empty one."""
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
    """What a person reads in the file as Markdown."""
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    cells = nbformat.read(path, as_version=4).cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
