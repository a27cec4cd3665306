"""What long searches have done, and what it brings to aim them.

    python -m tools.search.published --begin FOLDER
        a folder in which the search continues from the state in `benchmarks/results`
    python -m tools.search.published FOLDER
        keep the state of that folder, and make the page's table from it
    python -m tools.search.published --compare 1000
        as many runs without and with an aim
    python -m tools.search.published --again FIRST LAST SETTING
        try the seeds from FIRST to LAST - 1 once more, those whose writers have another SETTING

All but the first replace a part of tools/search/results.md.
"""

import argparse
import gzip
import sys
from collections import Counter
from dataclasses import fields
from itertools import islice
from pathlib import Path

from benchmarks.simulation import replace_part
from labkit.worlds.sim.explore.search import in_processes
from labkit.worlds.sim.workload.steps import Write
from tools.search.long_search import PROGRESS, LongSearch, resume
from tools.search.report import published
from tools.search.search_run import Trial, tried
from tools.search.targeting import RARE

_KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "search.json.gz"
_SETTINGS = [each.name for each in fields(Write)]


def main() -> None:
    """Write the part that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("folder", type=Path, nargs="?", help="of the search")
    what.add_argument("--compare", type=int, metavar="RUNS", help="runs of either kind")
    what.add_argument("--begin", type=Path, metavar="FOLDER", help="of a search that goes on")
    what.add_argument("--again", nargs=3, metavar=("FIRST", "LAST", "SETTING"))
    arguments = parser.parse_args()
    if arguments.again:
        first, last, setting = arguments.again
        if not (first.isdecimal() and last.isdecimal() and setting in _SETTINGS):
            parser.error(f"--again wants two seeds and one of {', '.join(_SETTINGS)}")
        replace_part("search again", _again(range(int(first), int(last)), setting))
    elif arguments.compare:
        replace_part("aimed search", _comparison(arguments.compare))
    elif arguments.begin:
        _begin(arguments.begin)
    else:
        _keep(arguments.folder)


def _begin(folder: Path) -> None:
    progress = folder / PROGRESS
    if progress.exists():
        sys.exit(f"{folder} is the folder of a search already; name a new one")
    folder.mkdir(parents=True, exist_ok=True)
    progress.write_bytes(gzip.decompress(_KEPT.read_bytes()))


def _keep(folder: Path) -> None:
    progress = folder / PROGRESS
    if not progress.exists():
        sys.exit(f"{folder} has no {PROGRESS}: it is not the folder of a search")
    # Without a time in it: the same state gives the same file.
    _KEPT.write_bytes(gzip.compress(progress.read_bytes(), mtime=0))
    replace_part("long search", published(resume(folder).state))


def _again(seeds: range, setting: str) -> str:
    """What came of those seeds whose writers have another value of the setting than usual: a change
    of code that only such writers reach leaves the runs of all other seeds as they were.
    """
    search, usual = _new_search(), getattr(Write(), setting)
    drawn = (Trial(search.scenario(seed), seed) for seed in seeds)
    trials = (
        trial
        for trial in drawn
        if any(
            isinstance(step, Write) and getattr(step, setting) != usual
            for step in trial.scenario.workload
        )
    )
    tried_seeds, processor_s, broken = 0, 0.0, list[str]()
    for result in in_processes(tried, trials, 0):
        tried_seeds += 1
        processor_s += result.processor_s
        broken += (f"{result.trial.seed}: {each.promise}" for each in result.findings)
    return (
        f"Of the {len(seeds):,} seeds from {seeds.start:,} on, {tried_seeds:,} have a writer whose"
        f" `{setting}` is not {usual}. They were tried again in"
        f" {processor_s / 3600:.3f} processor hours. Broken: {', '.join(broken) or 'none'}.\n"
    )


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
