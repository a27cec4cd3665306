"""The long search: tries seeds one after the other for hours, and can be stopped and continued.

Its state is a file that is replaced atomically every few seconds: the number of seeds tried, and
for each broken promise how often and at which seeds it broke, and its first scenario, shrunk.  A
text file beside it contains the same for people.
"""

import json
import os
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from labkit.model.errors import BKIncorrectParameterException
from labkit.sim.explore.drawn_topic import drawn_topic
from labkit.sim.explore.progress import ProgressLine
from labkit.sim.explore.search import NEVER_ENDS, Finding, judged
from labkit.sim.explore.shrink import shrink
from labkit.sim.scenario import Scenario, from_json

_SAVE_EVERY_S = 5.0
_SEEDS_KEPT = 100
_WITH_BROKERS_EVERY = 5
_TEXT = ".txt"


@dataclass(slots=True)
class BrokenPromise:
    """How often a promise broke, at which seeds (the first hundred), how it broke in the first
    scenario, and that scenario, shrunk.
    """

    times: int
    seeds: list[int]
    reason: str
    scenario: Scenario


@dataclass(slots=True)
class LongSearch:
    """The findings for a variant in the seeds before `next_seed`, and the `seconds` spent."""

    variant: str = ""
    next_seed: int = 0
    seconds: float = 0.0
    broken: dict[str, BrokenPromise] = field(default_factory=dict)

    def go_on(self, path: Path, *, seconds: float = 0, seeds: int = 0, jobs: int = 0) -> None:
        """Try the next seeds for `seconds`, or `seeds` of them (0: no limit), and keep the state in
        `path`.  An interrupt ends the search too.

        Raises `OSError` when `path` cannot be written: before the search, not after hours of it.
        """
        self.save(path)
        begun_at = saved_at = time.monotonic()
        seconds_before, first = self.seconds, self.next_seed
        tell = ProgressLine(seeds)
        numbers = range(first, first + seeds) if seeds else count(first)
        try:
            scenarios = map(self._scenario, numbers)
            for findings in judged(scenarios, variant=self.variant, jobs=jobs):
                for finding in findings:
                    self._add(finding)
                self.next_seed += 1
                now = time.monotonic()
                self.seconds = seconds_before + now - begun_at
                tell(self.next_seed - first, sum(each.times for each in self.broken.values()))
                if now - saved_at >= _SAVE_EVERY_S:
                    self.save(path)
                    saved_at = now
                if seconds and now - begun_at >= seconds:
                    break
        except KeyboardInterrupt:
            pass  # An interrupt is not a failure: the findings so far are kept.
        self.save(path)

    def _scenario(self, seed: int) -> Scenario | int:
        """The scenario of the seed; for the real protocol every fifth one has brokers."""
        has_brokers = not self.variant and seed % _WITH_BROKERS_EVERY == 0
        return drawn_topic(seed) if has_brokers else seed

    def save(self, path: Path) -> None:
        """Replace state and text: an interruption at any moment leaves the old or the new ones,
        whole.
        """
        _replace(path, json.dumps(self._data(), indent=1) + "\n")
        _replace(path.with_suffix(_TEXT), self.text() + "\n")

    def text(self) -> str:
        """The whole state for people, with scenarios that can be replayed."""
        lines = [
            f"Variant: {self.variant or 'none, the real thing'}",
            f"Seeds 0 to {self.next_seed - 1:,} in {self.seconds:,.0f} s"
            if self.next_seed
            else "No seed was tried yet",
            f"Promises that broke: {len(self.broken) or 'none'}",
        ]
        for promise, each in self.broken.items():
            seeds = ", ".join(map(str, each.seeds[:10]))
            lines += ["", f"{promise}: {each.times} times, first at seeds {seeds}"]
            lines += [each.reason, repr(each.scenario)]
        return "\n".join(lines)

    def _add(self, finding: Finding) -> None:
        broken = self.broken.get(finding.promise)
        if broken is None:
            scenario, reason = finding.scenario, finding.reason
            if finding.promise != NEVER_ENDS:
                smallest = shrink(scenario, finding.promise)
                scenario, reason = smallest.scenario, smallest.verdict.reason
            broken = self.broken[finding.promise] = BrokenPromise(0, [], reason, scenario)
        broken.times += 1
        if len(broken.seeds) < _SEEDS_KEPT:
            broken.seeds.append(self.next_seed)

    def _data(self) -> dict[str, Any]:
        return {
            "variant": self.variant,
            "next_seed": self.next_seed,
            "seconds": round(self.seconds, 1),
            "broken": {
                promise: {
                    "times": each.times,
                    "seeds": each.seeds,
                    "reason": each.reason,
                    "scenario": json.loads(each.scenario.to_json()),
                }
                for promise, each in self.broken.items()
            },
        }


def resume(path: Path, variant: str) -> LongSearch:
    """The search whose state is in the file, or a new one.

    Raises `BKIncorrectParameterException` for the state of another variant's search, and for a file
    that is not a state.
    """
    if path.suffix == _TEXT:
        raise BKIncorrectParameterException(
            f"{path}: *{_TEXT} is for the text beside the state; name another file"
        )
    if not path.exists():
        return LongSearch(variant)
    try:
        found = _from_data(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BKIncorrectParameterException(
            f"{path} is not the state of a search ({type(error).__name__}: {error}); name another"
            " file, or remove it to begin again"
        ) from None
    if found.variant != variant:
        raise BKIncorrectParameterException(
            f"{path} is the state of a search with the variant {found.variant!r}; name another"
            " file for this one"
        )
    return found


def _from_data(data: Any) -> LongSearch:
    broken = {
        promise: BrokenPromise(
            each["times"], each["seeds"], each["reason"], from_json(json.dumps(each["scenario"]))
        )
        for promise, each in data["broken"].items()
    }
    return LongSearch(data["variant"], data["next_seed"], data["seconds"], broken)


def _replace(path: Path, text: str) -> None:
    aside = path.with_name(path.name + ".new")
    with aside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
