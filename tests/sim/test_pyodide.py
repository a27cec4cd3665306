"""The simulated world in the Python of a browser (Pyodide, run by Node.js): 32 bits, no threads, no
processes, another C library, and an event loop that runs already.
"""

import shutil
import subprocess
from pathlib import Path

import google.protobuf
import pytest

from labkit.sim.run import run
from tests.repeat import repeated
from tests.sim.digests import scenarios

ROOT = Path(__file__).parents[2]
PYODIDE = "pyodide@314.0.7"


@pytest.fixture(scope="module")
def pyodide(kept: pytest.Cache) -> Path:
    """Its folder, got once."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("there is no Node.js with npm here")
    home = kept.mkdir(PYODIDE.replace("@", "-"))
    folder = home / "node_modules" / "pyodide"
    if not (folder / "package.json").exists():
        npm = ["npm", "install", "--prefix", str(home), "--no-audit", "--no-fund", PYODIDE]
        done = subprocess.run(npm, capture_output=True, text=True, timeout=300, check=False)
        if done.returncode:
            pytest.skip(f"{PYODIDE} cannot be installed: {done.stderr[-300:]}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("count", repeated([10, 40]))
def test_a_browsers_python_runs_seeds_alike(pyodide: Path, count: int) -> None:
    protobuf = Path(google.protobuf.__file__).parents[2]
    program = Path(__file__).with_name("in_pyodide.mjs")
    done = subprocess.run(
        ["node", str(program), str(pyodide), str(ROOT), str(protobuf), str(count)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [run(scenario).digest for scenario in scenarios(count)]
