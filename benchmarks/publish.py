"""Prints and stores the figures of a benchmark, and updates docs/performance.md."""

import sys
from pathlib import Path

from benchmarks.measure import table
from benchmarks.report import with_key_figures
from benchmarks.results import Run, store, stored_runs

PERFORMANCE_PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def publish(run: Run, *, only_print: bool) -> None:
    """Print the run and, unless `only_print` is set, store it and update docs/performance.md."""
    busy = ", busy" if run.is_busy else ""
    sys.stdout.write(f"Measured on {run.machine}{busy}.\n\n{table(run.figures)}")
    if not only_print:
        store(run)
        renew_page()


def renew_page() -> None:
    """Update the table in docs/performance.md from the stored runs."""
    text = PERFORMANCE_PAGE.read_text(encoding="utf-8")
    PERFORMANCE_PAGE.write_text(with_key_figures(text, stored_runs()), encoding="utf-8")
