"""Tests which modules the Python of a browser tab has already imported when it starts."""

import json
from pathlib import Path

from tools.site.distribution import imports_of

CELLS = (
    ("markdown", "import nothing"),
    ("code", "from labkit import (\n    run,\n    Write,\n)\nimport json"),
    ("code", "await run()\nif late:\n    import never"),
)


def test_the_imports_of_notebooks_are_those_of_their_cells_each_once(tmp_path: Path) -> None:
    cells = [{"cell_type": kind, "source": [source]} for kind, source in CELLS]
    paths = [tmp_path / "a.ipynb", tmp_path / "b.ipynb"]
    for path in paths:
        path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert imports_of(paths) == ["from labkit import run, Write", "import json"]
