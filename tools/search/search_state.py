"""The state of a long search, stored as JSON between runs."""

import json
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from tools.search.code_version import CodeVersion
from tools.search.targeting import Aim, Reached


@dataclass(slots=True)
class BrokenPromise:
    """How often a promise was broken, and the first scenario that broke it.

    `seeds` lists the first hundred seeds that broke it; aimed runs have no seed. `scenario` has
    been shrunk, and `reason` describes how it breaks the promise.
    """

    times: int
    seeds: list[int]
    reason: str
    scenario: Scenario


@dataclass(slots=True)
class Count:
    """The runs of a version of the code, their processor time, and the broken promises."""

    code: CodeVersion
    seeds: int = 0
    aimed: int = 0
    processor_s: float = 0.0
    broken: dict[str, BrokenPromise] = field(default_factory=dict)


@dataclass(slots=True)
class SearchState:
    """The state of a search, in which all seeds below `next_seed` have been tried.

    `counts` has one element per version of the code, in chronological order; the last one belongs
    to the current code. `aim` and `taken` (branches, as pairs of lines) apply only to the current
    protocol code.
    """

    variant: str = ""
    next_seed: int = 0
    counts: list[Count] = field(default_factory=list)
    aim: Aim = field(default_factory=Aim)
    taken: dict[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    watched: int = 0

    @property
    def same_protocol(self) -> list[Count]:
        """The counts of the current protocol code, combined with the current or earlier checks."""
        protocol = self.counts[-1].code.protocol
        others = takewhile(lambda each: each.code.protocol == protocol, reversed(self.counts))
        return [*others] if protocol else self.counts[-1:]

    def to_json(self) -> str:
        data = {
            "variant": self.variant,
            "next_seed": self.next_seed,
            "counts": [_count_data(count) for count in self.counts],
            "tried_seeds": self.aim.seeds,
            "reached": {
                name: [
                    each.by_seeds,
                    each.by_aimed,
                    each.first_seed,
                    [json.loads(scenario.to_json()) for scenario in each.stock],
                ]
                for name, each in self.aim.reached.items()
            },
            "watched": self.watched,
            "taken": {name: sorted(branches) for name, branches in self.taken.items()},
        }
        return json.dumps(data) + "\n"


def state_from_json(text: str) -> SearchState:
    """Parse the output of `SearchState.to_json`.

    Raises `ValueError`, `KeyError`, `TypeError`, `AttributeError` or
    `BKIncorrectParameterException` if the text is anything else.
    """
    data = json.loads(text)
    aim = Aim()
    aim.seeds = int(data["tried_seeds"])
    for name, (by_seeds, by_aimed, first_seed, stock) in data["reached"].items():
        # The code that saved the state may have defined other situations.
        if name in aim.reached:
            scenarios = [_scenario(each) for each in stock]
            aim.reached[name] = Reached(by_seeds, by_aimed, first_seed, scenarios)
    return SearchState(
        str(data["variant"]),
        int(data["next_seed"]),
        [_count(each) for each in data["counts"]],
        aim,
        {
            name: frozenset((first, then) for first, then in branches)
            for name, branches in data["taken"].items()
        },
        int(data["watched"]),
    )


def _count_data(count: Count) -> dict[str, Any]:
    return {
        "code": [count.code.digest, count.code.name, count.code.protocol],
        "seeds": count.seeds,
        "aimed": count.aimed,
        "processor_s": round(count.processor_s, 1),
        "broken": {
            promise: {
                "times": each.times,
                "seeds": each.seeds,
                "reason": each.reason,
                "scenario": json.loads(each.scenario.to_json()),
            }
            for promise, each in count.broken.items()
        },
    }


def _count(data: Any) -> Count:
    broken = {
        promise: BrokenPromise(
            each["times"], each["seeds"], each["reason"], _scenario(each["scenario"])
        )
        for promise, each in data["broken"].items()
    }
    return Count(
        CodeVersion(*data["code"]), data["seeds"], data["aimed"], data["processor_s"], broken
    )


def _scenario(data: Any) -> Scenario:
    return from_json(json.dumps(data))
