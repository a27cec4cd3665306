"""Run families of benchmarks one after the other, keep their results, and make the page.

    python -m benchmarks [--quick | --page] [FAMILY ...]

Without a name all families run.  Each waits until the machine is quiet, at most three minutes.  A
family that fails, or that is still running after its time, is named at the end, and its older
results stay on the page.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.publish import write_page
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
    "views": 5,
}
"""Each family's longest time."""
_QUIET_WITHIN_S = 180
"""How long each waits for a quiet machine.  The Makefile names the sum of all these times."""


def main() -> int:
    """Run what was named; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("family", nargs="*", help=f"of {', '.join(_MINUTES)}; all by default")
    parser.add_argument("--quick", action="store_true", help="less data, no page")
    parser.add_argument("--page", action="store_true", help="only make the page")
    options = parser.parse_args()
    unknown = set(options.family) - set(_MINUTES)
    if unknown:
        parser.error(f"there is no family {', '.join(sorted(unknown))}; see --help")
    missed = []
    for family in [] if options.page else options.family or _MINUTES:
        when = "" if options.quick else " once the machine is quiet"
        sys.stdout.write(f"\n{family}, at most {_MINUTES[family]} minutes{when}\n\n")
        sys.stdout.flush()
        if not options.quick:
            wait_until_quiet()
        if failure := _run(family, quick=options.quick):
            missed.append(f"{family} {failure}")
    if not options.quick:
        write_page()
    for line in missed:
        sys.stderr.write(f"benchmarks: {line}\n")
    return 1 if missed else 0


def wait_until_quiet() -> None:
    """Wait until the load average is low: it remembers the family before this one for more than a
    minute, and the start of this one adds to it.
    """
    end = time.monotonic() + _QUIET_WITHIN_S
    while os.getloadavg()[0] >= BUSY_LOAD / 2 and time.monotonic() < end:
        time.sleep(1)


def _run(family: str, *, quick: bool) -> str:
    """Run the family as a process; returns what went wrong, empty if nothing did."""
    module = f"benchmarks.{family.replace('-', '_')}"
    command = [sys.executable, "-m", module, *(["--quick"] if quick else [])]
    try:
        ended = subprocess.run(
            command, cwd=_HERE.parent, timeout=60 * _MINUTES[family], check=False
        )
    except subprocess.TimeoutExpired:
        return f"was ended after {_MINUTES[family]} minutes"
    return f"ended with status {ended.returncode}" if ended.returncode else ""


if __name__ == "__main__":
    sys.exit(main())
