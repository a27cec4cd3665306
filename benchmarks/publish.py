"""What every benchmark does with its figures: print them, keep them, renew the page."""

import sys
from pathlib import Path

from benchmarks.measure import table
from benchmarks.report import page, pictures
from benchmarks.results import Run, store, stored_runs

_DOCS = Path(__file__).parent.parent / "docs"


def publish(run: Run, *, only_print: bool) -> None:
    """Print the run; unless `only_print`, also keep it and make the page from all that is kept."""
    busy = ", busy" if run.is_busy else ""
    sys.stdout.write(f"Measured on {run.machine}{busy}.\n\n{table(run.figures)}")
    if not only_print:
        store(run)
        write_page()


def write_page() -> None:
    """Make docs/benchmarks.md and its pictures from the stored runs."""
    runs, file = stored_runs(), _DOCS / "benchmarks.md"
    file.write_text(page(file.read_text(encoding="utf-8"), runs), encoding="utf-8")
    for name, picture in pictures(runs).items():
        (_DOCS / name).write_text(picture, encoding="utf-8")
