"""The long search: tries seeds one after the other for hours, and can be stopped and continued.

After every few seeds it tries a near relative of a scenario that reached a rare situation (`aim`).
What it knows is in a folder:

    progress.json      how far it is and what it reached, replaced atomically twice a minute
    counterexamples/   for each promise that broke in the present code: the first scenario, shrunk
    report.txt         the same for people, written when the search ends

It counts by the version of the protocol's code and its checks: with other code it begins again,
except that it goes on with new seeds, and tries first what broke before.  What it has reached stays
reached when only the checks change.
"""

import os
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import drawn_topic
from labkit.worlds.sim.explore.search import NEVER_ENDS, Finding, in_processes, scenario_of
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.scenario.scenario import Scenario
from tools.search.code_version import CodeVersion, code_version
from tools.search.report import report
from tools.search.search_run import Trial, Tried, tried
from tools.search.search_state import BrokenPromise, Count, SearchState, state_from_json
from tools.search.targeting import Aim

PROGRESS, REPORT, COUNTEREXAMPLES = "progress.json", "report.txt", "counterexamples"

WATCHED_EVERY = 31
"""One seed of these is watched.  No multiple of 5: those seeds have brokers, and all would."""
_AIMED_EVERY = 3
_EARLY_SEEDS = 10_000
_AIMED_EVERY_LATER = 10
"""After the early seeds fewer are aimed: new seeds have reached most situations by then, and an
aimed run takes 1.6 times as long as theirs.
"""
_WITH_BROKERS_EVERY = 5
_SAVE_EVERY_S = 30.0
_SEEDS_KEPT = 100


class LongSearch:
    """A search whose state is in a folder.  With a `variant` it looks for a planted mistake."""

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
        """Of the present code."""
        return self.state.counts[-1]

    def run(self, *, seconds: float = 0, seeds: int = 0, jobs: int = 0) -> None:
        """Try the next seeds for `seconds`, or `seeds` of them (0: no limit).  An interrupt ends
        the search as well, and nothing is lost.

        Raises `OSError` when the folder cannot be written: before the search, not after hours; and
        `BKIncorrectParameterException` when another search goes on in the same folder.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.save()
        begun_at, first = time.monotonic(), self.state.next_seed
        tell = ProgressLine(seeds, "seeds", in_place=sys.stderr.isatty())
        try:
            for each in in_processes(tried, self.trials(seeds), jobs):
                self.take(each)
                broken = sum(promise.times for promise in self.count.broken.values())
                tell(self.state.next_seed - first, broken)
                now = time.monotonic()
                if now - self._saved_at >= _SAVE_EVERY_S:
                    self.save()
                if seconds and now - begun_at >= seconds:
                    break
        except KeyboardInterrupt:
            pass  # It says stop, not fail: what was found is kept.
        finally:
            self.save()
            _replace(self.folder / REPORT, report(self.state) + "\n")

    def trials(self, seeds: int = 0) -> Iterator[Trial]:
        """What is tried next: what broke before, then `seeds` seeds (0: without end), and between
        them what is aimed.
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

    def take(self, result: Tried) -> None:
        """Count what came of a trial, and keep what broke."""
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
        """Replace the state by that of now: a stop at any moment leaves the old or the new one,
        whole.

        Raises `BKIncorrectParameterException` when another search has saved its own since.
        """
        path = self.folder / PROGRESS
        if _stamp(path) not in (None, self._stamp):
            raise BKIncorrectParameterException(
                f"another search has saved its state in {self.folder} since this one did, and goes"
                " on from there; this one ends. Let one search at a time use a folder: --jobs"
                " gives it more processes"
            )
        _replace(path, self.state.to_json())
        self._saved_at, self._stamp = time.monotonic(), _stamp(path)

    def scenario(self, seed: int) -> Scenario:
        """What is tried for the seed: of the real thing every fifth time brokers, too."""
        variant = self.state.variant
        if not variant and seed % _WITH_BROKERS_EVERY == 0:
            return drawn_topic(seed)
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
        """Keep the scenario as it is, and then, in its place, the smallest one like it."""
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
    """The search whose state is in the folder, or a new one.

    Raises `BKIncorrectParameterException` for the state of another variant's search, and for a file
    that is none.
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
            f"{path} is not the state of a search ({type(error).__name__}: {error}); name another"
            " folder, or remove the file to begin again"
        ) from None
    if state.variant != variant:
        raise BKIncorrectParameterException(
            f"{path} is the state of a search with the variant {state.variant!r}; name another"
            " folder for this one"
        )
    return LongSearch(state, folder, code_version())


def _aim_of_other_code(before: Aim) -> Aim:
    """It has reached nothing yet, but the stock is a start."""
    aim = Aim()
    for name, reached in before.reached.items():
        aim.reached[name].stock = reached.stock
    return aim


def _stamp(path: Path) -> tuple[int, int] | None:
    """Changes when the file is replaced; None without one."""
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
