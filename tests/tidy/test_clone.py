"""Tests that the test suite passes wherever the project is located.

The clone's folder has the same name as the package, its path contains a space, and pytest has no
cache yet.
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
    """Copy the project into a folder named labkit, as `git clone` would."""
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
