"""TLC checks runs of the simulated world against the public specification of the protocol.

The tests are skipped if the specification is missing; `tlc` lists the requirements.
"""

import pytest

from tests.tla.amendments import (
    AMENDMENTS,
    ANSWERS_NOT_NEEDED,
    CONFIRMED_BEFORE,
    TWO_RECOVERERS,
    Amendment,
)
from tests.tla.scenarios import MISTAKES, SCENARIOS, run_in
from tests.tla.tlc import Tlc

pytestmark = [pytest.mark.java, pytest.mark.slow]


@pytest.mark.promise(
    "Small runs are behaviours of the public TLA+ specification, and runs with a bug are not"
)
@pytest.mark.parametrize("name", SCENARIOS)
def test_run_of_the_protocol_is_a_behaviour_of_the_specification(tlc: Tlc, name: str) -> None:
    judgement = tlc.judge(run_in(name))
    assert judgement.is_behaviour, str(judgement)


@pytest.mark.parametrize("variant", MISTAKES)
def test_run_with_a_mistake_is_not_a_behaviour(tlc: Tlc, variant: str) -> None:
    judgement = tlc.judge(run_in(MISTAKES[variant], variant))
    assert not judgement.is_behaviour
    assert "is not a behaviour of the specification: nothing in it explains" in str(judgement)


@pytest.mark.parametrize(
    ("amendment", "name"),
    [
        (ANSWERS_NOT_NEEDED, "a recovery"),
        (CONFIRMED_BEFORE, "a recovery from a known LAC on"),
        (TWO_RECOVERERS, "two recoverers"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_correct_run_is_refused_without_the_amendment(
    tlc: Tlc, amendment: Amendment, name: str
) -> None:
    others = [each for each in AMENDMENTS if each is not amendment]
    assert not tlc.judge(run_in(name), others).is_behaviour
