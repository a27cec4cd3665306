"""docs/configuration.md is made from the table of keys."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_the_keys_is_made_from_the_table_of_today() -> None:
    page = runpy.run_path(str(DOCS / "make_configuration.py"))["page"]()
    made = (DOCS / "configuration.md").read_text(encoding="utf-8")
    assert made == page, "run: python docs/make_configuration.py"
