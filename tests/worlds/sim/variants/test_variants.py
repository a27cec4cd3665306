"""Each variant has its bug in the runs that request it and in no others."""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from labkit.system.check import broken, check_all
from labkit.worlds.sim.explore.counterexamples import counterexample, kept
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.run import run
from labkit.worlds.sim.variants.variants import VARIANTS
from tests.worlds.sim.runs import run_safely


@pytest.mark.sampled
@pytest.mark.promise("Every planted bug is found, and the same scenario is harmless without it")
@pytest.mark.parametrize("name", kept())
def test_a_counterexample_breaks_the_promise_of_its_variant_and_none_without_it(name: str) -> None:
    scenario = counterexample(name)
    assert scenario.variant == name
    verdicts = broken(check_all(run(scenario)))
    assert VARIANTS[name].breaks in [verdict.name for verdict in verdicts]
    for verdict in verdicts:
        # An explanation names neither the numbers of events nor entries that do not exist.
        assert not re.search(r"event \d|(entry|was|is) -1\b", verdict.explanation)
    run_safely(replace(scenario, variant=""))


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
