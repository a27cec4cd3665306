"""Checks that a lesson's parameters are in range, even if papermill sets them.

Papermill only warns about a parameter that a notebook does not have, and accepts any value. A wrong
value would make a lesson fail in a later cell or, worse, show a wrong result. The cell after the
parameters therefore calls `parameters`.
"""

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from IPython.core.getipython import get_ipython

from labkit.views.widgets.stripes import MAX_BOOKIES, MAX_ENTRIES
from labkit.worlds.sim.variants.variants import VARIANTS

Values = Mapping[str, Any]


class ParameterError(ValueError):
    """Raised if a lesson has no such parameter, or if a value is out of range."""


@dataclass(frozen=True, slots=True)
class NumberRange:
    """A range of numbers from `minimum` to `maximum`; with `is_whole`, only integer multiples of
    `step`.
    """

    minimum: float
    maximum: float
    is_whole: bool = True
    step: int = 1

    def __contains__(self, value: object) -> bool:
        kinds = int if self.is_whole else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds):
            return False
        is_step = not self.is_whole or value % self.step == 0
        return self.minimum <= value <= self.maximum and is_step

    def __str__(self) -> str:
        kind = "number" if not self.is_whole else "whole number"
        steps = f" in steps of {self.step}" if self.step > 1 else ""
        return f"a {kind} from {self.minimum} to {self.maximum}{steps}"


@dataclass(frozen=True, slots=True)
class OneOf:
    texts: tuple[str, ...]

    def __contains__(self, value: object) -> bool:
        return value in self.texts

    def __str__(self) -> str:
        return "one of " + ", ".join(map(repr, self.texts))


@dataclass(frozen=True, slots=True)
class ShortText:
    max_length: int

    def __contains__(self, value: object) -> bool:
        return isinstance(value, str) and len(value) <= self.max_length

    def __str__(self) -> str:
        return f"a string of at most {self.max_length} characters"


@dataclass(frozen=True, slots=True)
class ListOf:
    """Lists of 1 to `max_count` numbers, each within a range."""

    each: NumberRange
    max_count: int

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, list) or not 1 <= len(value) <= self.max_count:
            return False
        return all(number in self.each for number in value)

    def __str__(self) -> str:
        return f"a list of 1 to {self.max_count} numbers, each {self.each}"


Allowed = NumberRange | OneOf | ShortText | ListOf
Rule = Allowed | Callable[[Values], Allowed]
"""The allowed values, or a function that returns them given the values of the earlier
parameters.
"""

_COUNT = NumberRange(1, 10_000)
_FAULTS = NumberRange(0, 100)

LESSONS: dict[str, dict[str, Rule]] = {
    "01": {
        "ledger_id": NumberRange(0, 2**63 - 1),
        "payload": ShortText(200),
        "digest_type": OneOf(("CRC32C", "CRC32", "HMAC", "DUMMY")),
    },
    "02": {"payload_size": _COUNT, "group_size": NumberRange(1, 50)},
    "03": {
        "ledger_count": NumberRange(1, 8),
        "entries_per_ledger": NumberRange(2, 200),
        "page_size": NumberRange(512, 65_536, step=8),
    },
    "04": {
        "entry_count": NumberRange(1, 10),
        "inside_count": NumberRange(1, 5),
        "payload_size": NumberRange(1, 2000),
    },
    "05": {
        "ensemble_size": NumberRange(2, MAX_BOOKIES),
        "write_quorum": lambda values: NumberRange(1, values["ensemble_size"]),
        "ack_quorum": lambda values: NumberRange(1, values["write_quorum"]),
        "entry_count": NumberRange(2, MAX_ENTRIES),
    },
    "06": {
        "entry_count": NumberRange(3, 30),
        "slow_ms": NumberRange(1, 500),
        "pause_ms": NumberRange(1, 100),
    },
    "07": {
        "entry_count": NumberRange(4, 40),
        # The acknowledgements of a whole window arrive together, and a window has three entries.
        "dies_after": lambda values: NumberRange(3, values["entry_count"] - 1, step=3),
        "bookie_count": NumberRange(4, 10),
    },
    "08": {
        "entry_count": NumberRange(5, 30),
        # If fewer entries were left, none would be in flight when the bookies are fenced.
        "paused_after": lambda values: NumberRange(1, values["entry_count"] - 4),
        "paused_ms": NumberRange(15, 200, is_whole=False),
    },
    "09": {
        "lost": OneOf(("b1", "b2")),
        "delay_s": NumberRange(5, 60),
        "entry_count": NumberRange(3, 60),
    },
    "10": {
        "living_percent": ListOf(NumberRange(0, 100, step=5), 8),
        "minor_threshold": NumberRange(0.05, 1.0, is_whole=False),
        "major_threshold": lambda values: NumberRange(
            values["minor_threshold"], 1.0, is_whole=False
        ),
    },
    "11": {
        "batch_size": NumberRange(3, 12),
        "entries_per_ledger": NumberRange(4, 12),
        "chosen": lambda values: NumberRange(
            0, values["batch_size"] * values["entries_per_ledger"] + 1
        ),
    },
    "12": {
        "source": OneOf(("sample", "live")),
        "message_count": NumberRange(1000, 1_000_000),
        "swaps": _FAULTS,
        "redeliveries": _FAULTS,
        "lost_entries": _FAULTS,
    },
    "13": {
        "message_count": NumberRange(90, 10_000),
        "dies": OneOf(("b0", "b1", "b2")),
        "rows_per_trigger": NumberRange(10, 10_000),
    },
    "14": {
        "variant": OneOf(tuple(sorted(VARIANTS))),
        "seed_count": NumberRange(1, 1000),
        "fault_count": NumberRange(1, 10),
    },
    "15": {
        "edit_count": NumberRange(15, 100),
        "records_per_ledger": NumberRange(2, 20),
        "chunk_bytes": NumberRange(20, 1000),
    },
    "16": {
        "entry_count": NumberRange(1, 20),
        "seed_count": NumberRange(1, 1000),
        "payload_size": NumberRange(1, 500),
    },
    "17": {
        "entry_count": NumberRange(4, 20),
        "seed_count": NumberRange(1, 1000),
        # As in lesson 07.
        "dies_after": lambda values: NumberRange(3, min(values["entry_count"] - 1, 6), step=3),
    },
}
"""Rules by lesson, in the order in which the parameters cell sets the parameters."""

CASE_SEED = "case_seed"
"""A parameter of every lesson: the seed of its exercises' generated cases."""
MAX_SEED = 2**31 - 1
CASE_SEEDS = NumberRange(1, MAX_SEED)
_chosen = {CASE_SEED: 1}
_started: list[tuple[str, Values]] = []
"""The lesson of this kernel and its parameter values, once its cell has called `parameters`."""

INJECTED = "# Parameters"
"""First line of the cell that papermill inserts after the parameters cell."""


def parameters(lesson: str, values: Values) -> None:
    """Check the parameter values in a lesson's notebook, given the notebook's `globals()`.

    Raises `ParameterError` if a value is out of range, or if papermill has set a parameter that the
    lesson does not have.
    """
    rules = LESSONS[lesson]
    for name in _names_set_by_papermill():
        if name not in (*rules, CASE_SEED):
            near = get_close_matches(name, rules, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ParameterError(
                f"Lesson {lesson} has no parameter {name}; its parameters are"
                f" {', '.join(rules)}{meant}"
            )
    for name, rule in rules.items():
        allowed = rule(values) if callable(rule) else rule
        if values[name] not in allowed:
            raise ParameterError(f"{name} is {values[name]!r}: it must be {allowed}.")
    seed = values.get(CASE_SEED, 1)
    if seed not in CASE_SEEDS:
        raise ParameterError(f"{CASE_SEED} is {seed!r}: it must be {CASE_SEEDS}.")
    _chosen[CASE_SEED] = seed
    _started[:] = [(lesson, {name: values[name] for name in rules})]


def started_lesson() -> tuple[str, Values]:
    """Return the number of this kernel's lesson and its parameter values, or ("", {}) if no lesson
    has been started.
    """
    return _started[0] if _started else ("", {})


def case_seed() -> int:
    """Return the seed of the generated cases in this kernel, or 1 if the notebook sets no seed."""
    return _chosen[CASE_SEED]


def _names_set_by_papermill() -> list[str]:
    """Return the names that papermill has set, according to the notebook's input history."""
    shell = get_ipython()
    cells: list[str] = shell.user_ns.get("In", []) if shell else []
    found = [cell for cell in cells if cell.startswith(INJECTED)]
    return [
        target.id
        for cell in found
        for node in ast.parse(cell).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
