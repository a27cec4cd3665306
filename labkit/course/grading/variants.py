"""Gives each student a variant of a lesson, with other numbers, names and faults but the same level
of difficulty.

A variant is a seed. The seed selects the lesson's parameters from the choices below, whose ranges
are narrower than the lesson's own, and is also the seed of the generated cases. Parameters and seed
are set in a cell after the lesson's own parameters, where papermill would insert them, so each
notebook records its own variant. A student can edit that cell to get another variant;
`results.parquet` records the graded variant.
"""

import ast
from collections.abc import Sequence
from hashlib import sha256
from random import Random
from typing import Any

from labkit.course.checking.parameters import CASE_SEED, CASE_SEEDS, INJECTED, MAX_SEED
from labkit.course.grading.slices import source_of

TAG = "injected-parameters"
"""Papermill's tag for such a cell."""

CHOICES: dict[str, dict[str, Sequence[Any]]] = {
    "01": {
        "ledger_id": range(5, 100_000),
        "payload": ("hello", "flight", "wind 12", "gate B7", "late: 9", "JFK-SFO"),
        "digest_type": ("CRC32C", "CRC32"),
    },
    "02": {"payload_size": range(10, 60), "group_size": range(2, 6)},
    "03": {"ledger_count": (2, 3), "entries_per_ledger": range(3, 9)},
    "04": {"entry_count": (2, 3, 4), "inside_count": (1, 2), "payload_size": range(10, 60)},
    "05": {"ensemble_size": range(4, 8), "entry_count": range(7, 13)},
    "06": {"entry_count": range(5, 10), "slow_ms": range(15, 31), "pause_ms": range(4, 9)},
    "07": {"entry_count": range(8, 13), "dies_after": (3, 6), "bookie_count": (5, 6)},
    "08": {
        "entry_count": range(9, 13),
        "paused_after": (3, 4, 5),
        "paused_ms": (20.0, 25.0, 30.0, 35.0, 40.0),
    },
    "09": {"lost": ("b1", "b2"), "delay_s": range(8, 21), "entry_count": range(9, 16)},
    "10": {
        "living_percent": [
            [0, few, half, 90] for few in (5, 10, 15) for half in (40, 45, 50, 55, 60)
        ]
    },
    "11": {"batch_size": (4, 5, 6), "entries_per_ledger": (4, 5), "chosen": range(10, 16)},
    "12": {"swaps": (3, 4, 5), "redeliveries": (2, 3, 4), "lost_entries": (2, 3)},
    "13": {"dies": ("b0", "b1", "b2"), "rows_per_trigger": range(80, 101)},
    "14": {
        "variant": (
            "ack after one bookie",
            "recovery without fencing",
            "recovery trusts one bookie",
        )
    },
    "15": {
        "edit_count": range(18, 25),
        "records_per_ledger": (4, 5, 6),
        "chunk_bytes": range(80, 151),
    },
    "16": {"entry_count": range(3, 7), "payload_size": range(10, 60)},
    "17": {"entry_count": range(7, 10), "dies_after": (3, 6)},
}
"""By lesson: the choices for each parameter. A parameter that is not listed keeps its value."""


def seed_of(student: str) -> int:
    number = int.from_bytes(sha256(student.encode()).digest()[:8], "big")
    return 1 + number % MAX_SEED


def variant_values(lesson: str, seed: int) -> dict[str, Any]:
    random = Random(f"{lesson}:{seed}")
    chosen = CHOICES.get(lesson, {})
    drawn = {name: random.choice(choices) for name, choices in chosen.items()}
    return {CASE_SEED: seed} | drawn


def parameters_cell(values: dict[str, Any]) -> str:
    return "\n".join([INJECTED, *(f"{name} = {value!r}" for name, value in values.items())])


def variant_of(notebook: dict[str, Any]) -> int:
    """Return the variant of a notebook, or 1 (for the lessons' own cases) if the notebook sets no
    variant.
    """
    for cell in notebook.get("cells", ()):
        if TAG in cell["metadata"].get("tags", ()):
            return _assigned_seed(source_of(cell))
    return 1


def _assigned_seed(text: str) -> int:
    """Return the last number that the cell assigns to `case_seed`, or 1 if this is not a valid
    seed.
    """
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 1
    seeds: list[Any] = [
        statement.value.value
        for statement in body
        if isinstance(statement, ast.Assign)
        and [getattr(target, "id", "") for target in statement.targets] == [CASE_SEED]
        and isinstance(statement.value, ast.Constant)
    ]
    return int(seeds[-1]) if seeds and seeds[-1] in CASE_SEEDS else 1
