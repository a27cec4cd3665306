"""The documents' Markdown says what its author meant."""

import re
from collections.abc import Iterator
from itertools import groupby

from tests.tidy.test_style import ROOT, committed

CODE = re.compile(r" {4,}\S")


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
