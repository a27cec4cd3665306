"""Runs a long search, which tries seeds for hours and can be interrupted and resumed.

After every few seeds, it also runs a mutation of a scenario that came close to a rare situation
(`targeting`). Its state is kept in a folder:

    progress.json      the progress and the situations reached, replaced atomically twice a minute
    counterexamples/   the first scenario that broke each promise in the current code, shrunk
    report.txt         a human-readable report, written when the search ends

Runs are counted separately for each version of the code of the protocol and its checks. If the code
changes, the counts start again at 0. The search then first reruns the scenarios that have broken a
promise before, and continues with new seeds. If only the checks change, the list of situations
reached is kept.
"""

import os
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.explore.search import NEVER_ENDS, Finding, in_processes, scenario_of
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.scenario.scenario import Scenario
from tools.search.code_version import CodeVersion, code_version
from tools.search.report import report
from tools.search.search_run import Trial, TrialResult, run_trials
from tools.search.search_state import BrokenPromise, Count, SearchState, state_from_json
from tools.search.targeting import Aim

PROGRESS, REPORT, COUNTEREXAMPLES = "progress.json", "report.txt", "counterexamples"

WATCHED_EVERY = 31
"""The branches of one in this many seeds are measured. This must not be a multiple of 5, because
every fifth seed has brokers.
"""
_AIMED_EVERY = 3
_EARLY_SEEDS = 10_000
_AIMED_EVERY_LATER = 10
"""After the early seeds, fewer runs are aimed at rare situations: by then the seeds have reached
most situations, and an aimed run takes 1.6 times as long as a run with a seed.
"""
_BROKERS_EVERY = 5
_SAVE_EVERY_S = 30.0
_SEEDS_KEPT = 100


class LongSearch:
    """A search that keeps its state in a folder, and runs the variant that the state names."""

    def __init__(self, state: SearchState, folder: Path, code: CodeVersion) -> None:
        self.state = state
        self.folder = folder
        self._saved_at = 0.0
        self._stamp = _stamp(folder / PROGRESS)
        if not state.counts or state.counts[-1].code.digest != code.digest:
            state.counts.append(Count(code))
            if len(state.same_protocol) == 1:
                state.aim, state.taken, state.watched = _aim_of_other_code(state.aim), {}, 0

    @property
    def count(self) -> Count:
        return self.state.counts[-1]

    def run(self, *, seconds: float = 0, seeds: int = 0, jobs: int = 0) -> None:
        """Try `seeds` seeds for at most `seconds` (0: no limit).

        An interrupt also stops the search, but loses no results. Raises `OSError` before the search
        starts if the folder cannot be written, and `BKIncorrectParameterException` if another
        search is using the folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.save()
        begun_at, first = time.monotonic(), self.state.next_seed
        show_progress = ProgressLine(seeds, "seeds", in_place=sys.stderr.isatty())
        try:
            for each in in_processes(run_trials, self.trials(seeds), jobs):
                self.take(each)
                broken = sum(promise.times for promise in self.count.broken.values())
                show_progress(self.state.next_seed - first, broken)
                now = time.monotonic()
                if now - self._saved_at >= _SAVE_EVERY_S:
                    self.save()
                if seconds and now - begun_at >= seconds:
                    break
        except KeyboardInterrupt:
            pass  # Stop normally, and keep the results.
        finally:
            self.save()
            _replace(self.folder / REPORT, report(self.state) + "\n")

    def trials(self, seeds: int = 0) -> Iterator[Trial]:
        """Yield the scenarios that broke a promise in earlier code, then `seeds` seeds (0:
        endlessly many).

        Aimed scenarios are interspersed.
        """
        if not self.count.seeds:
            earlier = {name: each for old in self.state.counts for name, each in old.broken.items()}
            for broken in earlier.values():
                yield Trial(broken.scenario)
        first = self.state.next_seed
        for seed in range(first, first + seeds) if seeds else count(first):
            yield Trial(self.scenario(seed), seed, seed % WATCHED_EVERY == 0)
            if self._aims_after(seed) and (aimed := self.state.aim.next(seed)) is not None:
                yield Trial(aimed, None, seed % WATCHED_EVERY == 0)

    def _aims_after(self, seed: int) -> bool:
        is_early = self.state.aim.seeds < _EARLY_SEEDS
        return seed % (_AIMED_EVERY if is_early else _AIMED_EVERY_LATER) == 0

    def take(self, result: TrialResult) -> None:
        """Record the result of a trial, and save the scenario if it broke a promise."""
        state, seed = self.state, result.trial.seed
        if seed is None:
            self.count.aimed += 1
        else:
            self.count.seeds += 1
            state.next_seed = seed + 1
        self.count.processor_s += result.processor_s
        state.aim.note(result.trial.scenario, result.situations, seed)
        if result.trial.is_watched:
            state.watched += 1
            for name, branches in result.taken.items():
                state.taken[name] = state.taken.get(name, frozenset()) | branches
        for finding in result.findings:
            self._add(finding, seed)

    def save(self) -> None:
        """Replace the saved state atomically.

        Raises `BKIncorrectParameterException` if another search has saved its state in the
        meantime.
        """
        path = self.folder / PROGRESS
        if _stamp(path) not in (None, self._stamp):
            raise BKIncorrectParameterException(
                f"another search has saved its state in {self.folder}, so this one stops. Run only"
                " one search per folder; --jobs gives it more processes"
            )
        _replace(path, self.state.to_json())
        self._saved_at, self._stamp = time.monotonic(), _stamp(path)

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of a seed; without a variant, one in five includes brokers."""
        variant = self.state.variant
        if not variant and seed % _BROKERS_EVERY == 0:
            return random_topic_scenario(seed)
        return scenario_of(seed, variant)

    def _add(self, finding: Finding, seed: int | None) -> None:
        broken = self.count.broken.get(finding.promise)
        if broken is None:
            broken = BrokenPromise(0, [], finding.reason, finding.scenario)
            self.count.broken[finding.promise] = broken
        broken.times += 1
        if seed is not None and len(broken.seeds) < _SEEDS_KEPT:
            broken.seeds.append(seed)
        if broken.times == 1:
            self._keep(finding.promise, broken)

    def _keep(self, promise: str, broken: BrokenPromise) -> None:
        path = self.folder / COUNTEREXAMPLES / f"{promise}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, broken.scenario.to_json() + "\n")
        self.save()
        if promise != NEVER_ENDS:
            smallest = shrink(broken.scenario, promise)
            broken.scenario, broken.reason = smallest.scenario, smallest.verdict.reason
            _replace(path, broken.scenario.to_json() + "\n")
            self.save()


def resume(folder: Path, variant: str = "") -> LongSearch:
    """Return the search that has saved its state in the folder, or a new search.

    Raises `BKIncorrectParameterException` if the state is invalid or belongs to another variant.
    """
    path = folder / PROGRESS
    if not path.exists():
        return LongSearch(SearchState(variant), folder, code_version())
    try:
        state = state_from_json(path.read_text(encoding="utf-8"))
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        BKIncorrectParameterException,
    ) as error:
        raise BKIncorrectParameterException(
            f"{path} is not the state of a search ({type(error).__name__}: {error}); use another"
            " folder, or delete the file to start over"
        ) from None
    if state.variant != variant:
        raise BKIncorrectParameterException(
            f"{path} is the state of a search with variant {state.variant!r}; use another folder"
        )
    return LongSearch(state, folder, code_version())


def _aim_of_other_code(before: Aim) -> Aim:
    # No run of the new code has reached a situation yet, but the stored scenarios are a good
    # starting point.
    aim = Aim()
    for name, reached in before.reached.items():
        aim.reached[name].stock = reached.stock
    return aim


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return a value that changes whenever the file is replaced, or None if it does not exist."""
    if not path.exists():
        return None
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_ino


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(path.name + ".new")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
