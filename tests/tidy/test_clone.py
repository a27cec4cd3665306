"""The suite passes wherever the project lies: in a folder named as its package, which is what
`git clone` makes, below a path with a space in it, and without pytest's cache.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.test_style import ROOT, committed


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the project as a clone lies: in a folder named labkit."""
    folder = tmp_path / "a clone" / "labkit"
    for file in committed():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, folder / file)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


@pytest.mark.slow
def test_a_clone_without_a_cache_passes(clone: Path) -> None:
    tests = (
        "tests/tidy/test_style.py",
        "tests/worlds/sim/test_determinism.py",
        "tests/worlds/sim/test_pyodide.py",
    )
    picked = "the_map or other_versions or browsers_python"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *tests, "-k", picked],
        cwd=clone,
        env={**os.environ, "PYTHONPATH": str(clone)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert " 2 passed, 3 skipped" in run.stdout
