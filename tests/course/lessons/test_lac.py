"""Tests the exercises of lesson 06: correct answers pass, wrong ones are rejected with a reason."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from labkit.course.exercises.lac import Tail, advance, read_delays_ms, readable
from labkit.course.lessons import check
from labkit.system.trace.events import Event
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write
from tests.repeat import repeated_cases

pytestmark = pytest.mark.slow

ADVANCE, READABLE = "lac.advance", "lac.readable"


def highest_complete(last: int, acks: list[int], qa: int) -> int:
    complete = [place for place, count in enumerate(acks) if count >= qa]
    return last + 1 + complete[-1] if complete else last


def one_too_many(last: int, acks: list[int], qa: int) -> int:
    return advance(last, acks, qa + 1)


def endless(last: int, acks: list[int], qa: int) -> int:
    while True:
        pass


def test_right_answers_pass() -> None:
    assert check(ADVANCE, advance).passed
    assert check(READABLE, readable).passed


@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    repeated_cases(
        [
            (highest_complete, "must not advance past an entry", "with the acknowledgement of b0"),
            (
                lambda last, acks, qa: last + sum(count >= qa for count in acks),
                "must not advance past an entry",
                "AckQuorumIsReached",
            ),
            (
                lambda last, acks, qa: advance(last, acks, 1),
                "must not advance past",
                "AckQuorumIsReached",
            ),
            (one_too_many, "must advance as far as it can", "The writer is still waiting"),
            (
                lambda last, acks, qa: last + bool(acks and acks[0] >= qa),
                "must advance as far as it can",
                "asked advance(-1, [1, 1], 1).\n  It said 0; right is 1.",
            ),
            (lambda last, acks, qa: advance(-1, acks, qa), "must never decrease", "advance("),
            (lambda last, acks, qa: None, "must return int", "None"),
        ],
        once=3,
    ),
    ids=["highest", "all complete", "one bookie", "Qa + 1", "one step", "from the start", "None"],
)
def test_a_wrong_confirmation_is_refused(
    answer: Callable[[int, list[int], int], object], reason: str, shown: str
) -> None:
    card = check(ADVANCE, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in f"{card.counterexample}"


@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    [
        (
            lambda known, newest: max([known, *(entry for entry, _ in newest)]),
            "must not read an unconfirmed entry",
            "NothingBeyondLacIsRead",
        ),
        (
            lambda known, newest: max([known, *(entry - 1 for entry, _ in newest)]),
            "must not read an unconfirmed entry",
            "NothingBeyondLacIsRead",
        ),
        (
            lambda known, newest: max(known, min((lac for _, lac in newest), default=-1)),
            "the highest one counts",
            "ReadersLearnWhatIsConfirmed",
        ),
        (
            lambda known, newest: max(known, newest[0][1]) if newest else known,
            "the highest one counts",
            "ReadersLearnWhatIsConfirmed",
        ),
        (
            lambda known, newest: max((lac for _, lac in newest), default=-1),
            "must never decrease",
            "asked readable(0, [])",
        ),
    ],
    ids=["what is there", "one behind", "lowest", "first", "forgets"],
)
def test_a_reader_that_is_wrong_is_refused(
    answer: Callable[[int, list[tuple[int, int]]], int], reason: str, shown: str
) -> None:
    card = check(READABLE, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in str(card.counterexample)


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
