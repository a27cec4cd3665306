"""What long searches have done, and what it brings to aim them.

    python -m benchmarks.search FOLDER            the page's table of the search in that folder
    python -m benchmarks.search --compare 1000    as many runs without and with an aim

Both replace a part of docs/simulation.md.
"""

import argparse
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

from benchmarks.simulation import replace_part
from labkit.sim.explore.aim import RARE
from labkit.sim.explore.long_search import LongSearch, resume
from labkit.sim.explore.report import published
from labkit.sim.explore.search import in_processes
from labkit.sim.explore.tried import tried


def main() -> None:
    """Write the part that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", type=Path, nargs="?", help="of `labkit search`")
    what.add_argument("--compare", type=int, metavar="RUNS", help="runs of either kind")
    arguments = parser.parse_args()
    if arguments.compare:
        replace_part("aimed search", _comparison(arguments.compare))
    elif (arguments.folder / "progress.json").exists():
        replace_part("long search", published(resume(arguments.folder).state))
    else:
        sys.exit(f"{arguments.folder} has no progress.json: it is not the folder of a search")


def _comparison(runs: int) -> str:
    """A table; rare is what is rare without an aim."""
    plain, aimed = _reached(runs, is_aimed=False), _reached(runs, is_aimed=True)
    rare = [name for name in _names() if plain[name] <= RARE * runs]
    rows = [
        f"| {runs:,} runs | situations reached | rare ones reached | rare ones reached"
        " three times or more | times that a run reached a rare one |",
        "| --- | --- | --- | --- | --- |",
    ]
    for what, counts in (("seeds alone", plain), ("aimed", aimed)):
        figures = (
            sum(1 for name in _names() if counts[name]),
            sum(1 for name in rare if counts[name]),
            sum(1 for name in rare if counts[name] >= 3),
            sum(counts[name] for name in rare),
        )
        rows.append(f"| {what} | {' | '.join(f'{figure:,}' for figure in figures)} |")
    total = f"There are {len(_names())} situations; {len(rare)} of them are rare."
    return "\n".join((*rows, "", total, ""))


def _names() -> list[str]:
    return list(_new_search().state.aim.reached)


def _reached(runs: int, *, is_aimed: bool) -> Counter[str]:
    """How many runs got into each situation."""
    search, counts = _new_search(), Counter[str]()
    trials = (each for each in search.trials() if is_aimed or each.seed is not None)
    for result in in_processes(tried, islice(trials, runs), 1):
        search.take(result)
        counts.update(result.situations)
    return counts


def _new_search() -> LongSearch:
    return resume(Path("no such folder"))


if __name__ == "__main__":
    main()
