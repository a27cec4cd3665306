"""Tests the exercises of lesson 06: correct answers pass, wrong ones are rejected with a reason."""

import asyncio
from dataclasses import replace

import pytest

from labkit.course.exercises.lac import Tail, read_delays_ms
from labkit.course.lessons import check
from labkit.system.trace.events import Event
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

pytestmark = pytest.mark.slow

ADVANCE, READABLE = "lac.advance", "lac.readable"


def endless(last: int, acks: list[int], qa: int) -> int:
    while True:
        pass


@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    repeated_cases(
        [
            (
                "highest complete",
                "must not advance past an entry",
                "with the acknowledgement of b0",
            ),
            ("all complete", "must not advance past an entry", "AckQuorumIsReached"),
            ("one bookie", "must not advance past", "AckQuorumIsReached"),
            ("Qa + 1", "must advance as far as it can", "The writer is still waiting"),
            (
                "one step",
                "must advance as far as it can",
                "asked advance(-1, [1, 1], 1).\n  It said 0; right is 1.",
            ),
            ("from the start", "must never decrease", "advance("),
            (lambda last, acks, qa: None, "must return int", "None"),
        ],
        once=3,
    ),
)
def test_a_wrong_confirmation_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(ADVANCE, wrong, reason, shown)


@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        ("what is there", "must not read an unconfirmed entry", "NothingBeyondLacIsRead"),
        ("one behind", "must not read an unconfirmed entry", "NothingBeyondLacIsRead"),
        ("the lowest", "the highest one counts", "ReadersLearnWhatIsConfirmed"),
        ("the first", "the highest one counts", "ReadersLearnWhatIsConfirmed"),
        ("forgets", "must never decrease", "asked readable(0, [])"),
    ],
)
def test_a_reader_that_is_wrong_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(READABLE, wrong, reason, shown)


def test_a_loop_without_end_is_stopped_in_the_thread_of_the_simulated_world_too() -> None:
    async def in_a_notebook() -> str:
        return check(ADVANCE, endless).message

    assert "does not come to an end" in asyncio.run(in_a_notebook())


def test_tail_reads_each_confirmed_entry_and_fails_if_one_is_not_confirmed() -> None:
    write = Write(0, 3, every_ms=5, close=False)
    trace = run(Scenario(Cluster(3), (write, Tail(entries=3))))
    mine = [e for e in trace.events if e.kind == "read.done" and e.node == "r"]
    assert [e.entry for e in mine if e.entry >= 0] == [0, 1]
    assert any("entry 2 was not confirmed" in e.explanation for e in trace.events)


def test_read_delays_ignore_pushes_by_the_epilogue() -> None:
    pushes = [
        (0, "w", "add.pushed"),
        (77_000, "r", "read.done"),
        (94_000, "epilogue", "add.pushed"),
    ]
    events = tuple(
        Event(seq, at_us, node, kind, -1, 0, 5) for seq, (at_us, node, kind) in enumerate(pushes)
    )
    trace = replace(run(Scenario(Cluster(3), (Write(0, 1),))), events=events)
    assert read_delays_ms(trace) == {5: 77.0}
