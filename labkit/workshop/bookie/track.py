"""The track "build a bookie", step by step."""

from pathlib import Path

from labkit.workshop.bookie import (
    checkpoint_step,
    entry_log_step,
    index_step,
    journal_step,
    memtable_step,
    replay_step,
)
from labkit.workshop.step import Track

_HERE = Path(__file__).parent

TRACK = Track(
    name="bookie",
    title="Build a bookie",
    file_name="mybookie.py",
    skeleton=_HERE / "skeleton.py",
    solution=_HERE / "solution.py",
    steps=(
        journal_step.STEP,
        memtable_step.STEP,
        entry_log_step.STEP,
        index_step.STEP,
        checkpoint_step.STEP,
        replay_step.STEP,
    ),
)
