"""Measures the processor time of each stage of an add."""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time
from typing import TypeVar

from benchmarks.add_path import empty, receives_of
from benchmarks.measure import Figure
from benchmarks.workload import open_store
from labkit.system.model.wire import AddBatch, Code, decode_requests
from labkit.worlds.live.net import split_frames

S = TypeVar("S")
R = TypeVar("R")

_GROUP_SIZE = 256


def stage_figures(folder: Path, entry_count: int, repeat_count: int) -> list[Figure]:
    """Measure the processor time of each stage per add.

    A real add takes longer than the sum of the stages, because it is also passed between threads,
    and a caller waits for the response.
    """
    groups = receives_of(entry_count, _GROUP_SIZE)
    rounds = [_stages(folder, groups) for _ in range(repeat_count)]
    return [
        Figure(
            f"stage of an add: {stage}",
            [1e6 * seconds[stage] / entry_count for seconds in rounds],
            " µs",
            is_work=True,
        )
        for stage in rounds[0]
    ]


def _stages(folder: Path, groups: Sequence[Sequence[bytes]]) -> dict[str, float]:
    empty(folder)
    store = open_store(folder)
    journal = store.journals[0]
    seconds: dict[str, float] = {}

    def stage(name: str, do: Callable[[S], R], inputs: Sequence[S]) -> list[R]:
        started = process_time()
        found = [do(each) for each in inputs]
        seconds[name] = seconds.get(name, 0.0) + process_time() - started
        return found

    def add(batch: AddBatch) -> None:
        store.add_entries(*batch[2:], batch.master_key)

    for receives in groups:
        frames = stage("frames of a receive", lambda data: split_frames(data)[0], receives)
        requests = stage("their requests", decode_requests, frames)
        batches = [each for some in requests for each in some if isinstance(each, AddBatch)]
        stage("memtable and journal record", add, batches)
        stage("responses", lambda batch: batch.responses(Code.OK), batches)
        stage("write and sync of the group", lambda _: journal.commit(), [None])
    journal.close()
    return seconds
