"""How fast one bookie stores and reads, each figure against something that runs beside it.

    python -m benchmarks.storage [--quick]

Prints a table; the full run is also kept, and renews `docs/benchmarks.md`.  Files are made in the
system's folder for temporary files (`TMPDIR`), which must be on a real disk, and removed.
"""

import argparse
import asyncio
import tempfile
from pathlib import Path

from benchmarks.add_path import add_path_figures, cpu_figures
from benchmarks.measure import Figure, machine
from benchmarks.peers import PEERS
from benchmarks.process import process_figures
from benchmarks.publish import publish
from benchmarks.reading import catch_up_figures, replay_figures
from benchmarks.results import make_run
from benchmarks.stages import stage_figures
from benchmarks.tracing import tracing_figures


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the data, no page")
    quick: bool = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="labkit-benchmark-") as name:
        folder = Path(name)
        measured_on = machine(folder)
        figures = _figures(folder, quick)
    publish(make_run("storage", measured_on, figures, _versions()), only_print=quick)


def _figures(folder: Path, quick: bool) -> list[Figure]:
    part, repeat_count = (4, 3) if quick else (1, 4)
    entry_count = 24 * 1024 // part
    return [
        *add_path_figures(folder / "adds", entry_count, repeat_count),
        *cpu_figures(folder / "adds" / "bookie", entry_count, repeat_count),
        *stage_figures(folder / "adds" / "bookie", entry_count, repeat_count),
        *tracing_figures(folder / "adds" / "bookie", entry_count, repeat_count),
        *replay_figures(folder / "replay", 256 // part, 3),
        *catch_up_figures(folder / "catch-up", 16 // part, 3),
        *asyncio.run(process_figures(folder / "processes", 256 // part, 3)),
    ]


def _versions() -> str:
    return ", ".join(peer.version for peer in PEERS if not peer.missing)


if __name__ == "__main__":
    main()
