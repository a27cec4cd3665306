"""Runs a benchmark family: parses its options, gives it a temporary folder, prints and stores its
figures, and updates docs/performance.md.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from benchmarks.measure import Figure, machine, table
from benchmarks.report import with_key_figures
from benchmarks.results import Run, store, stored_runs

PERFORMANCE_PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


@dataclass(slots=True)
class Measurement:
    """What a family has measured so far, in files below `folder`.

    `left_out` names the units of work for which there was no time; the other fields are those of
    `Run`.
    """

    folder: Path
    figures: list[Figure] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    versions: str = ""
    remark: str = ""


def benchmark_parser(
    docstring: str, *, quick: str, minutes: float | None = None, what: str = "points"
) -> argparse.ArgumentParser:
    """Return a parser with the option `--quick`, and with `--minutes` if `minutes` sets its
    default.

    quick: how a quick run differs; its results are printed but not stored.
    what: the units of work, none of which are started after N minutes.
    """
    parser = argparse.ArgumentParser(description=docstring.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{quick}, only printed")
    if minutes is not None:
        text = f"start no further {what} after N minutes (default: {minutes:g})"
        parser.add_argument("--minutes", type=float, default=minutes, metavar="N", help=text)
    return parser


@contextmanager
def measuring(family: str, *, only_print: bool) -> Iterator[Measurement]:
    """Let the block add figures to a measurement, and print them at its end.

    Unless `only_print` is set, also store the figures and update docs/performance.md.
    """
    with tempfile.TemporaryDirectory(prefix="labkit-benchmark-") as name:
        measured_on = machine(Path(name))
        found = Measurement(Path(name))
        yield found
    if found.left_out:
        found.remark = f"left out for lack of time: {'; '.join(found.left_out)}"
    run = Run(
        family,
        date.today().isoformat(),
        measured_on.words,
        round(measured_on.load, 1),
        tuple(figure.rounded() for figure in found.figures),
        found.versions,
        found.remark,
    )
    busy = ", busy" if run.is_busy else ""
    sys.stdout.write(f"Measured on {run.machine}{busy}.\n\n{table(run.figures)}")
    if not only_print:
        store(run)
        renew_page()


def renew_page() -> None:
    """Update the table in docs/performance.md from the stored runs."""
    text = PERFORMANCE_PAGE.read_text(encoding="utf-8")
    PERFORMANCE_PAGE.write_text(with_key_figures(text, stored_runs()), encoding="utf-8")
