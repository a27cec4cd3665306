"""Tests that `import labkit` provides all that a notebook needs, and that its API is documented."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from tools.site.api_page import api_page

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", labkit.__all__)
def test_every_name_of_the_front_door_opens_and_says_what_it_is(name: str) -> None:
    assert (getattr(labkit, name).__doc__ or "").strip()


def test_import_labkit_imports_nothing_that_it_offers() -> None:
    code = "import sys, labkit; print(*[m for m in sys.modules if m.startswith('labkit.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["labkit.lazy_names"]


def test_the_api_page_describes_every_name_of_the_front_door() -> None:
    page = api_page()
    assert [name for name in labkit.__all__ if f"### `{name}`" not in page] == []


def test_each_example_of_the_readme_has_one_import_line_for_labkit() -> None:
    examples = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    lines = [re.findall(r"(?m)^(?:from|import) labkit\b.*", example) for example in examples]
    assert lines
    assert [len(found) for found in lines] == [1] * len(lines)
