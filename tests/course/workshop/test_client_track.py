"""Tests the track "build a client": the solution passes each step, and a rejection shows what
happened.
"""

import importlib
from pathlib import Path

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.workshop import check
from labkit.course.workshop.client import api
from labkit.course.workshop.client.generated.reading import responses_determine_the_result
from labkit.course.workshop.files import load
from labkit.course.workshop.tracks import Step, track
from labkit.worlds.sim.scenario.rerun_with_fault import CannotForkError
from tests.course.workshop.wrong import refused, with_changes
from tests.repeat import repeated

SIMULATED = [step for step in track("client").steps if not step.is_live]
_FAILED = """        except BKException:
            self.bookie_failed(bookie)
            if pending.sent_to[place] == bookie:
                pending.failed.append(place)
"""
_ONE_OF_MANY = """                self.failed = []
                failed = failed[:1]
                self.given_up += failed
"""


def test_a_reader_that_waits_for_every_bookie_exceeds_the_cost_limit(tmp_path: Path) -> None:
    old = "        if is_covered(known, metadata):\n            return max(known.values())\n"
    new = "    if is_covered(known, metadata):\n        return max(known.values())\n"
    learner = load(with_changes(tmp_path, "client", (old, new)), seeds=1)
    while_one_is_slow = track("client").step(2).costs[1]
    assert while_one_is_slow.measure(learner) > 10 * while_one_is_slow.measure(None)


@pytest.mark.slow
@pytest.mark.parametrize("step", repeated(SIMULATED), ids=lambda step: step.name)
def test_the_solution_passes_each_step_within_its_cost_limits(step: Step) -> None:
    card = check("client", step.number, track("client").solution, seeds=12)
    assert card.passed, card
    assert "No promise broke in 12 storms" in card.message


@pytest.mark.slow
def test_a_storm_that_breaks_a_promise_is_shown_without_what_it_does_not_need(
    tmp_path: Path,
) -> None:
    change = (">= self.metadata.ack_quorum:", ">= 1:")
    learner = load(with_changes(tmp_path, "client", change), seeds=12)
    with pytest.raises(Refused) as refusal:
        track("client").step(1).slow_trials[-1](learner)
    found = refusal.value.counterexample
    assert isinstance(found, RunCounterexample)
    # A storm has a seed; the smaller run lists the decisions that it needs instead.
    assert found.trace.scenario.seed is None
    assert found.verdict.name == "AckQuorumIsReached"
    # A fork of this run uses the learner's current code.
    assert found.again is not None
    learner.part("Writer").add = _wrong
    for _ in range(2):
        with pytest.raises(CannotForkError, match="Your code raised ZeroDivisionError: no ack"):
            found.again(found.trace.scenario)


def _wrong(*_arguments: object) -> None:
    raise ZeroDivisionError("no acknowledgement is left")


LATER = {
    1: ("Writer.close", "Reader.read_last_add_confirmed", "Reader.read_entry", "recover"),
    2: ("Writer.close", "Reader.read_entry", "recover"),
    3: ("Writer.close", "recover"),
    4: ("Writer.close", "recover"),
    5: ("recover",),
}


@pytest.mark.sampled
@pytest.mark.parametrize("number", LATER)
def test_a_step_passes_before_the_later_ones_are_written(number: int) -> None:
    learner = load(track("client").solution, seeds=2)
    for name in LATER[number]:
        owner, _, method = name.rpartition(".")
        setattr(learner.part(owner) if owner else learner.module, method, _not_written)
    step = track("client").step(number)
    step.first_test.run(learner)
    for trial in (*step.quick_trials, *step.slow_trials[1:]):
        trial(learner)
    for cost in step.costs:
        assert cost.measure(learner) <= cost.at_most * cost.measure(None)


async def _not_written(*_: object) -> None:
    raise NotImplementedError


def test_the_skeleton_imports_all_that_the_solution_imports() -> None:
    names = vars(importlib.import_module("labkit.course.workshop.client.skeleton"))
    assert [name for name in api.__all__ if name not in names] == []


RAISE = "raise next((e for e in errors if not isinstance(e, PROVES_ABSENCE)), errors[0])"
READS = {
    "return await asyncio.Future()": ("entry 0: b0: BKTimeoutException", "waits for ever"),
    "raise errors[-1]": ("; expected BKTimeoutException",),
}


@pytest.mark.parametrize("wrong", READS)
def test_a_wrong_read_is_refused_with_the_responses_of_the_bookies(
    wrong: str, tmp_path: Path
) -> None:
    learner = load(with_changes(tmp_path, "client", (RAISE, wrong)), seeds=1)
    with pytest.raises(Refused) as refusal:
        responses_determine_the_result(learner)
    shown = str(refusal.value.counterexample)
    assert [text for text in READS[wrong] if text not in shown] == []


EXPLAINED: dict[str, tuple[int, tuple[str, str], tuple[str, ...]]] = {
    "a task that does not catch an error": (
        1,
        (_FAILED, ""),
        (
            "Your code raised BKTimeoutException",
            "await self.cluster.add_entry(bookie, pending.entry)",
            "b0 responds to entry 0 with BKTimeoutException",
        ),
    ),
    "a reader that returns early": (
        2,
        ("        if is_covered(known, metadata):\n", "        if known:\n"),
        ("although a confirmed entry could be only on a1",),
    ),
    "an add that waits for ever": (
        4,
        ("        if any(map(self.is_blocked, self.pending)):\n", "        if False:\n"),
        ("w waits for ever: write 4 entries to ledger 0.",),
    ),
}


@pytest.mark.parametrize("mistake", EXPLAINED)
def test_a_refusal_shows_what_happened(mistake: str, tmp_path: Path) -> None:
    number, change, expected = EXPLAINED[mistake]
    shown = repr(refused(tmp_path, "client", number, change))
    assert [text for text in expected if text not in shown] == []


@pytest.mark.parametrize(
    ("old", "new", "green"),
    [
        ("        self.failed.append(bookie)\n", "        return\n", 0),
        (_ONE_OF_MANY.replace("                failed = failed[:1]\n", ""), _ONE_OF_MANY, 2),
    ],
    ids=["nothing written", "one of two failed bookies is replaced"],
)
def test_the_tests_of_a_long_step_turn_green_one_after_the_other(
    old: str, new: str, green: int, tmp_path: Path
) -> None:
    card = refused(tmp_path, "client", 4, (old, new))
    names = ["the first test", *(each.name for each in track("client").step(4).milestones)]
    signs = "✔" * green + "✘" + "○" * (len(names) - green - 1)
    ladder = [f"{sign} {name}" for sign, name in zip(signs, names, strict=True)]
    assert card.message.splitlines()[: len(names)] == ladder
    assert f"Start with {names[green]!r}." in card.message
