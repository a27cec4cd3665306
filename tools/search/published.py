"""Publishes the results of long searches, and measures how much aiming at rare situations helps.

    python -m tools.search.published --begin FOLDER
        create a folder in which a search resumes from the state in `benchmarks/results`
    python -m tools.search.published FOLDER
        save the state of that folder to `benchmarks/results`, and update the table
    python -m tools.search.published --compare 1000
        compare 1000 runs without aiming with 1000 runs with it
    python -m tools.search.published --again FIRST LAST SETTING
        rerun the seeds from FIRST to LAST - 1 whose writers have a non-default SETTING

All except the first replace a part of tools/search/results.md.
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
from tools.search.search_run import Trial, run_trials
from tools.search.targeting import RARE

_KEPT = Path(__file__).parents[2] / "benchmarks" / "results" / "search.json.gz"
_SETTINGS = [each.name for each in fields(Write)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "folder", type=Path, nargs="?", metavar="FOLDER", help="publish the search in this folder"
    )
    mode.add_argument(
        "--compare",
        type=int,
        metavar="RUNS",
        help="compare this many runs with and without aiming at rare situations",
    )
    mode.add_argument(
        "--begin",
        type=Path,
        metavar="FOLDER",
        help="create a folder in which a search resumes from the published state",
    )
    mode.add_argument(
        "--again",
        nargs=3,
        metavar=("FIRST", "LAST", "SETTING"),
        help="rerun the seeds from FIRST to LAST - 1 whose writers have a non-default SETTING",
    )
    arguments = parser.parse_args()
    if arguments.again:
        first, last, setting = arguments.again
        if not (first.isdecimal() and last.isdecimal() and setting in _SETTINGS):
            parser.error(f"--again expects two seeds and one of {', '.join(_SETTINGS)}")
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
        sys.exit(f"{folder} already contains a search; choose a new folder")
    folder.mkdir(parents=True, exist_ok=True)
    progress.write_bytes(gzip.decompress(_KEPT.read_bytes()))


def _keep(folder: Path) -> None:
    progress = folder / PROGRESS
    if not progress.exists():
        sys.exit(f"{folder} does not contain a search: {PROGRESS} does not exist")
    # Omit the time, so that the same state always gives the same file.
    _KEPT.write_bytes(gzip.compress(progress.read_bytes(), mtime=0))
    replace_part("long search", published(resume(folder).state))


def _again(seeds: range, setting: str) -> str:
    """Rerun all seeds in which a writer overrides this setting's default, and describe the result.

    This is enough after a code change that affects only such writers, because all other runs stay
    the same.
    """
    search, default = _new_search(), getattr(Write(), setting)
    drawn = (Trial(search.scenario(seed), seed) for seed in seeds)
    trials = (
        trial
        for trial in drawn
        if any(
            isinstance(step, Write) and getattr(step, setting) != default
            for step in trial.scenario.workload
        )
    )
    seed_count, processor_s, broken = 0, 0.0, list[str]()
    for result in in_processes(run_trials, trials, 0):
        seed_count += 1
        processor_s += result.processor_s
        broken += (f"{result.trial.seed}: {each.promise}" for each in result.findings)
    return (
        f"Of the {len(seeds):,} seeds from {seeds.start:,} on, {seed_count:,} have a writer whose"
        f" `{setting}` is not {default}. They were rerun in {processor_s / 3600:.3f} processor"
        f" hours. Broken promises: {', '.join(broken) or 'none'}.\n"
    )


def _comparison(runs: int) -> str:
    """Return a table that compares runs with and without aiming.

    The runs without aiming determine which situations are rare.
    """
    plain, aimed = _count_situations(runs, is_aimed=False), _count_situations(runs, is_aimed=True)
    rare = [name for name in _names() if plain[name] <= RARE * runs]
    rows = [
        f"| {runs:,} runs | situations reached | rare ones reached | rare ones reached"
        " at least three times | number of times a run reached a rare one |",
        "| --- | --- | --- | --- | --- |",
    ]
    for label, counts in (("only seeds", plain), ("aimed", aimed)):
        figures = (
            sum(1 for name in _names() if counts[name]),
            sum(1 for name in rare if counts[name]),
            sum(1 for name in rare if counts[name] >= 3),
            sum(counts[name] for name in rare),
        )
        rows.append(f"| {label} | {' | '.join(f'{figure:,}' for figure in figures)} |")
    total = f"There are {len(_names())} situations; {len(rare)} of them are rare."
    return "\n".join((*rows, "", total, ""))


def _names() -> list[str]:
    return list(_new_search().state.aim.reached)


def _count_situations(runs: int, *, is_aimed: bool) -> Counter[str]:
    search, counts = _new_search(), Counter[str]()
    trials = (each for each in search.trials() if is_aimed or each.seed is not None)
    for result in in_processes(run_trials, islice(trials, runs), 1):
        search.take(result)
        counts.update(result.situations)
    return counts


def _new_search() -> LongSearch:
    return resume(Path("no such folder"))


if __name__ == "__main__":
    main()
