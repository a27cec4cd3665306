"""Measures how fast a bookie stores and reads entries, relative to a baseline on the same machine.

    python -m benchmarks.storage [--quick]

Each figure is the ratio of two consecutive runs, repeated three or four times: the median, with the
smallest and the largest repeat in brackets. Files are created in `TMPDIR`, which must be on a real
disk, and deleted afterwards.

- Adds: entries of 1 KiB, from the bytes received to the encoded responses: frames, requests,
  memtable, journal, and one write and one sync per group. Clients, the network and flushes of the
  memtable are not included. *Raw* is the limit of the disk: the same bytes, concatenated
  beforehand, written over an existing file with one `fdatasync` per group. The other stores receive
  the same entries in one transaction per group, through their fastest call.
- Processor time includes all threads and the kernel.
- Tracing: the number of times that an add checks for a listener, multiplied by the cost of a check,
  as a share of the time of an add.
- Replay and catch-up reads start with a cold page cache. The time of `cat` includes starting the
  process.
- Memory is what the kernel reports for the process (`VmRSS`, `VmHWM`, `Pss`).
"""

import asyncio
from pathlib import Path

from benchmarks.add_path import add_path_figures, cpu_figures
from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure
from benchmarks.peers import PEERS
from benchmarks.process import process_figures
from benchmarks.reading import catch_up_figures, replay_figures
from benchmarks.stages import stage_figures
from benchmarks.tracing import tracing_figures


def main() -> None:
    quick = benchmark_parser(__doc__, quick="a quarter of the data").parse_args().quick
    with measuring("storage", only_print=quick) as found:
        found.figures += _figures(found.folder, quick)
        found.versions = ", ".join(peer.version for peer in PEERS if not peer.missing)


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


if __name__ == "__main__":
    main()
