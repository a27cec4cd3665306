"""The committed lessons are what their sources say, and their checks stand as announced."""

import nbformat
import pytest

from labkit.lessons.build import SOURCES, VERSIONS, notebook_name, parse
from tests.notebooks.cards import check_cards

LESSONS = [notebook_name(source) for source in sorted(SOURCES.glob("[0-9][0-9]_*.py"))]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", LESSONS)
def test_the_committed_notebook_is_the_source_and_stands_as_announced(
    name: str, version: str
) -> None:
    source = next(s for s in SOURCES.glob("*.py") if notebook_name(s) == name)
    written = nbformat.read(VERSIONS[version] / name, as_version=4)
    parsed = parse(source.read_text(), f"lesson-{name[:2]}", version)
    assert [(c.id, c.source) for c in written.cells] == [(c.id, c.source) for c in parsed.cells]
    check_cards(VERSIONS[version] / name, version)
