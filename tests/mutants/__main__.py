"""`make mutants`: plant each bug in a copy of the code and run the tests that should catch it.

This is not part of the test suite; it measures the suite. It exits with status 1 if a bug survives.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

from tests.mutants.mistakes import MISTAKES, Mistake

ROOT = Path(__file__).parents[2]
TIME_LIMIT_S = 120
ARGUMENTS = ("-p", "no:nbval", "-p", "no:cacheprovider", "-q", "-x", "-m", "not (slow or java)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("part", nargs="?", default="", help="only files whose path has this in it")
    parser.add_argument("--minutes", type=float, default=30.0, help="plant no mistake after this")
    options = parser.parse_args()
    chosen = [mistake for mistake in MISTAKES if options.part in mistake.file]
    end = time.monotonic() + 60 * options.minutes
    outcomes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in ("labkit", "tests"):
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        for mistake in chosen:
            outcome = tried(copy, mistake) if time.monotonic() < end else "not tried"
            outcomes.append(outcome)
            print(f"{outcome:9}  {mistake.file}: {mistake.rule}", flush=True)
    counts = {outcome: outcomes.count(outcome) for outcome in dict.fromkeys(outcomes)}
    print(", ".join(f"{outcome}: {count}" for outcome, count in counts.items()))
    return int(set(outcomes) != {"killed"})


def tried(copy: Path, mistake: Mistake) -> str:
    """Try a bug and return "killed", "survived" or "no answer".

    It is killed if a test fails and survives if all tests pass. There is no answer if the tests do
    not finish, or if they fail even without the bug.
    """
    if not passes(copy, mistake.tests):
        return "no answer"
    source = copy / mistake.file
    healthy = source.read_text()
    source.write_text(healthy.replace(mistake.old, mistake.new))
    try:
        return {True: "survived", False: "killed", None: "no answer"}[judged(copy, mistake.tests)]
    finally:
        source.write_text(healthy)


@cache
def passes(copy: Path, tests: str) -> bool:
    """Return whether the tests pass without a planted bug."""
    return judged(copy, tests) is True


def judged(copy: Path, tests: str) -> bool | None:
    """Return whether the tests pass, or None if they do not finish or cannot be run."""
    try:
        run = subprocess.run(
            [sys.executable, "-m", "pytest", *ARGUMENTS, tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None
    return {0: True, 1: False}.get(run.returncode)


if __name__ == "__main__":
    sys.exit(main())
