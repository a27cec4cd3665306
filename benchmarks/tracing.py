"""Measures how much tracing adds to the cost of the add path, with and without a listener."""

import timeit
from pathlib import Path

from benchmarks.add_path import bookie_seconds, receives_of
from benchmarks.measure import Figure, in_turn, ratios
from benchmarks.workload import silent_recorder
from labkit.system.trace.recorder import Recorder

_GROUP_SIZE = 256


class _CountingRecorder(Recorder):
    """Counts how often the bookie checks whether there is a listener."""

    look_ups = 0

    def __getattribute__(self, name: str) -> object:
        if name in ("listening", "record", "record_entries"):
            _CountingRecorder.look_ups += 1
        return super().__getattribute__(name)


def tracing_figures(folder: Path, entry_count: int, repeat_count: int) -> list[Figure]:
    """Compare adds with and without a listener, and measure how much tracing costs without one."""
    groups = receives_of(entry_count, _GROUP_SIZE)
    listened_to = Recorder("benchmark", lambda: 0)
    listened_to.listen(lambda _: None)
    seconds = in_turn(
        {
            "no listener": lambda: bookie_seconds(folder, groups),
            "listening": lambda: bookie_seconds(folder, groups, listened_to),
        },
        repeat_count,
    )
    bookie_seconds(folder, groups, _CountingRecorder("benchmark", lambda: 0))
    recorder = silent_recorder()
    look_up_s = timeit.timeit(lambda: recorder.listening, number=100_000) / 100_000
    percents = [
        100 * look_up_s * _CountingRecorder.look_ups / each for each in seconds["no listener"]
    ]
    look_ups = f"{_CountingRecorder.look_ups / len(groups):.1f} look-ups per group"
    return [
        Figure(
            f"adds in groups of {_GROUP_SIZE}: what tracing takes without a listener",
            percents,
            " %",
            at_most=1,
            note=f"{look_ups} of {_GROUP_SIZE}, {look_up_s * 1e9:.0f} ns each",
        ),
        Figure(
            "the same with a listener, of the speed without",
            ratios(seconds["no listener"], seconds["listening"]),
            note="every event is built and handed over",
        ),
    ]
