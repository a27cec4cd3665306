"""How fast one bookie stores and reads, each figure against something that runs beside it.

    python benchmarks/storage.py [--quick]

Prints a table; the full run also puts it into `docs/benchmarks.md`.  Files are made in the
system's folder for temporary files (`TMPDIR`), which must be on a real disk, and removed.
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from add_path import add_path_figures, cpu_figures
from measure import Figure, machine, table
from peers import PEERS
from process import process_figures
from reading import catch_up_figures, replay_figures
from stages import stage_figures
from tracing import tracing_figures

_PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_BEGIN, _END = "<!-- figures: begin -->\n", "<!-- figures: end -->\n"


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a quarter of the data, no page")
    quick: bool = parser.parse_args().quick
    with tempfile.TemporaryDirectory(prefix="labkit-benchmark-") as name:
        folder = Path(name)
        text = f"Measured on {machine(folder)}; {_versions()}.\n\n{table(_figures(folder, quick))}"
    sys.stdout.write(text)
    if not quick:
        before, _, rest = _PAGE.read_text().partition(_BEGIN)
        _PAGE.write_text(before + _BEGIN + text + _END + rest.partition(_END)[2])


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
