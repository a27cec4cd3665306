"""Tests the exercises of lesson 15: correct answers pass, wrong ones are rejected with a reason."""

from itertools import permutations

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.exercises.build_on_it import garbage, take_over
from labkit.course.lessons import check
from labkit.course.runs.broken_runs import SpaceTimeCounterexample
from labkit.course.runs.timeline import RunCounterexample
from labkit.course.runs.uses.edit_log import CREATE, PUBLISH, READ, RECOVER, REPLAY, TAKE_OVER
from tests.course.lessons.wrong_uses import WRONG
from tests.repeat import repeated

pytestmark = pytest.mark.slow

ORDER, OFFSETS, GARBAGE = (f"build_on_it.{name}" for name in ("take_over", "offsets", "garbage"))
NOT_ALL = "must be recovered before the replay"
NEVER_FENCED = "will ever fence the old one"
TOO_EARLY = "depends on a later one: (the list of ledgers has not been read|no new ledger has)"


def is_right(order: tuple[str, ...]) -> bool:
    before = (READ, RECOVER), (RECOVER, REPLAY), (RECOVER, PUBLISH), (CREATE, PUBLISH)
    return all(order.index(first) < order.index(second) for first, second in before)


ORDERS = list(permutations(TAKE_OVER))


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ((READ, REPLAY, RECOVER, CREATE, PUBLISH), NOT_ALL),
        ((CREATE, READ, REPLAY, RECOVER, PUBLISH), NOT_ALL),
        ((READ, REPLAY, CREATE, RECOVER, PUBLISH), NOT_ALL),
        ((READ, CREATE, PUBLISH, RECOVER, REPLAY), NEVER_FENCED),
        ((CREATE, READ, PUBLISH, RECOVER, REPLAY), NEVER_FENCED),
        ((RECOVER, READ, REPLAY, CREATE, PUBLISH), TOO_EARLY),
        ((REPLAY, READ, RECOVER, CREATE, PUBLISH), TOO_EARLY),
        ((READ, RECOVER, REPLAY, PUBLISH, CREATE), TOO_EARLY),
        ((PUBLISH, READ, RECOVER, REPLAY, CREATE), TOO_EARLY),
    ],
)
def test_a_wrong_order_of_a_take_over_is_refused_for_its_reason(
    order: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(Refused, match=reason) as refused:
        take_over(list(order))
    if reason != TOO_EARLY:
        assert isinstance(refused.value.counterexample, SpaceTimeCounterexample)
        assert "acknowledged mkdir" in str(refused.value.counterexample)
        # The log consists of several ledgers, and the lost edit is in the first one.
        assert "diagram of ledger 0" in repr(refused.value.counterexample.view())


@pytest.mark.parametrize("order", repeated(ORDERS[::-1]))
def test_an_order_passes_if_and_only_if_no_answered_edit_can_be_lost(
    order: tuple[str, ...],
) -> None:
    assert check(ORDER, list(order)).passed == is_right(order)


def test_a_largest_offset_is_refused_with_the_run_in_which_a_group_goes_back() -> None:
    card = check(OFFSETS, WRONG[OFFSETS]["the largest"])
    assert not card.passed
    assert "billing" in str(card)


RULES = {
    "nothing points to it": "if its name does not exist yet",
    "not named": "whose version is newer than the named one",
    "up to this version": "The ledger that a name points to",
    "none": "with an older version than the named one",
}


@pytest.mark.parametrize("name", RULES)
def test_a_refusal_names_the_rule_that_its_case_breaks(name: str) -> None:
    assert RULES[name] in check(GARBAGE, WRONG[GARBAGE][name]).message


@pytest.mark.parametrize("name", ["nothing points to it", "none"])
def test_what_is_collected_wrongly_is_shown_in_a_run(name: str) -> None:
    with pytest.raises(Refused) as refused:
        garbage(WRONG[GARBAGE][name])
    assert type(refused.value.counterexample) is RunCounterexample
