"""Run Python as if on another operating system (see the `sitecustomize.py` of each system)."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def python_on(
    system: str, *arguments: str, folder: Path = ROOT, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in `folder` and wait until it exits. `more` adds environment
    variables.
    """
    path = os.pathsep.join((str(HERE / system), str(ROOT)))
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", **more},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=500,
        check=False,
    )
