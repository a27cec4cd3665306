"""Each variant has its bug in the runs that request it and in no others."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from labkit.system.check import CHECKS, broken, check_all
from labkit.worlds.sim.explore.counterexamples import counterexample, kept
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.variants.variants import VARIANTS

NAMES = [name for name in VARIANTS if name]
OF_THE_PROTOCOL = [
    "ack after one bookie",
    "LAC out of order",
    "ensemble change from the wrong entry",
    "recovery without fencing",
    "no fencing on recovery reads",
    "fence not persisted",
    "recovery trusts one bookie",
    "recovery publishes ensembles early",
    "could not read taken for no such entry",
    "unreachable taken for an answer",
    "auditor without delay",
    "metadata before the copy",
    "mark taken after the flush",
]


def promises_broken(scenario: Scenario) -> list[str]:
    return [verdict.name for verdict in broken(check_all(run(scenario)))]


def test_the_mistakes_that_lessons_speak_of_are_there() -> None:
    assert set(OF_THE_PROTOCOL) <= set(NAMES)
    assert set(OF_THE_PROTOCOL) <= set(kept())


@pytest.mark.parametrize("name", NAMES)
def test_a_variant_says_what_it_does_and_which_promise_it_breaks(name: str) -> None:
    variant = VARIANTS[name]
    assert variant.description
    assert variant.breaks in {check.__name__ for check in CHECKS} | {""}


@pytest.mark.sampled
@pytest.mark.promise("Every planted bug is found, and the same scenario is harmless without it")
@pytest.mark.parametrize("name", kept())
def test_a_counterexample_breaks_the_promise_of_its_variant(name: str) -> None:
    scenario = counterexample(name)
    assert scenario.variant == name
    assert VARIANTS[name].breaks in promises_broken(scenario)


@pytest.mark.parametrize("name", kept())
def test_an_explanation_contains_no_number_of_an_event_and_no_entry_that_does_not_exist(
    name: str,
) -> None:
    for verdict in broken(check_all(run(counterexample(name)))):
        assert not re.search(r"event \d|(entry|was|is) -1\b", verdict.explanation)


@pytest.mark.sampled
@pytest.mark.parametrize("name", kept())
def test_nothing_breaks_in_it_without_the_variant(name: str) -> None:
    assert promises_broken(replace(counterexample(name), variant="")) == []


def test_a_variant_without_counterexample_names_those_that_have_one() -> None:
    with pytest.raises(LookupError, match="ack after one bookie"):
        counterexample("replay keeps the mark")


def test_runs_beside_each_other_do_not_share_their_mistakes() -> None:
    scenario = random_scenario(1)
    healthy = run(scenario).digest
    wrong = counterexample("ack after one bookie")
    expected = run(wrong).digest
    with ThreadPoolExecutor(4) as threads:
        digests = list(threads.map(lambda each: run(each).digest, [scenario, wrong] * 4))
    assert digests == [healthy, expected] * 4
