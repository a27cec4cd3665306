"""Run benchmark families one after another, store their results, and update the page.

    python -m benchmarks [--quick | --page] [FAMILY ...]

By default, all families run. Before each one, the command waits for up to three minutes until the
machine is idle. Families that fail or exceed their time limit are listed at the end, and the page
keeps showing their older results. docs/performance.md shows the ten most important figures; the
site has the full report.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.family import renew_page
from benchmarks.results import BUSY_LOAD

_HERE = Path(__file__).parent
_MINUTES = {
    "growth": 16,
    "storage": 10,
    "replication": 20,
    "thread-times": 4,
    "broker": 10,
    "spark-jobs": 15,
    "spark-source": 10,
    "spark-planning": 15,
    "spark-scale": 60,
    "spark-search": 10,
    "views": 5,
}
"""Time limit of each family."""
_QUIET_WITHIN_S = 180
"""How long each family waits for an idle machine. The Makefile mentions the sum of all times."""


def main() -> int:
    """Run the selected families; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("family", nargs="*", help=f"of {', '.join(_MINUTES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="use less data and only print")
    parser.add_argument("--page", action="store_true", help="only renew docs/performance.md")
    options = parser.parse_args()
    unknown = set(options.family) - set(_MINUTES)
    if unknown:
        parser.error(
            f"unknown family {', '.join(sorted(unknown))}; valid families: {', '.join(_MINUTES)}"
        )
    failures = []
    for family in [] if options.page else options.family or _MINUTES:
        when = "" if options.quick else " once the machine is idle"
        sys.stdout.write(f"\n{family}, at most {_MINUTES[family]} minutes{when}\n\n")
        sys.stdout.flush()
        if not options.quick:
            wait_until_quiet()
        if failure := _run(family, quick=options.quick):
            failures.append(f"{family} {failure}")
    if not options.quick:
        renew_page()
    for failure in failures:
        sys.stderr.write(f"benchmarks: {failure}\n")
    return 1 if failures else 0


def wait_until_quiet() -> None:
    """Wait until the load average is low.

    The load caused by the previous family affects the average for more than a minute.
    """
    end = time.monotonic() + _QUIET_WITHIN_S
    while os.getloadavg()[0] >= BUSY_LOAD / 2 and time.monotonic() < end:
        time.sleep(1)


def _run(family: str, *, quick: bool) -> str:
    """Run the family in a separate process; return an error message, or "" on success."""
    module = f"benchmarks.{family.replace('-', '_')}"
    command = [sys.executable, "-m", module, *(["--quick"] if quick else [])]
    try:
        ended = subprocess.run(
            command, cwd=_HERE.parent, timeout=60 * _MINUTES[family], check=False
        )
    except subprocess.TimeoutExpired:
        return f"was stopped after {_MINUTES[family]} minutes"
    return f"failed with exit status {ended.returncode}" if ended.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
