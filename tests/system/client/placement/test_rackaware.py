"""Test how many racks an ensemble spans, and which bookies make it span more."""

from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest

from labkit.system.client.placement.placement import (
    choose_ensemble,
    choose_replacements,
    in_name_order,
)
from labkit.system.client.placement.rackaware import (
    RackawareEnsemblePlacementPolicy,
    RackawarePlacement,
)
from labkit.system.model.errors import BKNotEnoughBookiesException

NAMES = ("a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2")
BY_NAME = {name: f"/{name[0]}" for name in NAMES}


def policy(
    racks: Mapping[str, str] = BY_NAME, least: int = 2, *, enforced: bool = False
) -> RackawareEnsemblePlacementPolicy:
    return RackawareEnsemblePlacementPolicy(racks, least, enforced)


def new_ensemble(
    rule: RackawareEnsemblePlacementPolicy, names: Sequence[str], size: int, write_quorum: int
) -> tuple[str, ...]:
    placement = RackawarePlacement(rule, in_name_order, [None] * size, range(size), write_quorum)
    return choose_ensemble(placement, names, size)


def replaced(
    rule: RackawareEnsemblePlacementPolicy,
    ensemble: Sequence[str],
    failed: Sequence[int],
    names: Sequence[str],
    write_quorum: int,
    quarantined: Sequence[str] = (),
) -> str:
    """Return the ensemble after the failed bookies have been replaced."""
    placement = RackawarePlacement(rule, in_name_order, ensemble, failed, write_quorum)
    gone = {place: ensemble[place] for place in failed}
    found = choose_replacements(placement, names, ensemble, gone, quarantined)
    return " ".join(found.get(place, bookie) for place, bookie in enumerate(ensemble))


@pytest.mark.promise(
    "Every write set spans `minNumRacksPerWriteQuorum` racks if any choice of bookies does; "
    "if enforced, no other ensemble is created"
)
@pytest.mark.parametrize(
    ("ensemble", "write_quorum", "least", "adheres"),
    [
        ("a1 b1 a2 b2", 2, 2, True),
        ("a1 a2 b1 b2", 2, 2, False),
        ("a1 b1 a2", 2, 2, False),
        ("a1 b1 a2", 3, 2, True),
        ("a1 b1 a2", 3, 3, False),
        ("a1 b1 c1", 3, 3, True),
        ("a1 b1 c1", 2, 3, True),
        ("a1 a2 a3", 1, 2, True),
        ("a1 a2 x1", 3, 2, True),
    ],
)
def test_every_write_set_must_span_the_racks(
    ensemble: str, write_quorum: int, least: int, adheres: bool
) -> None:
    assert policy(least=least).is_adhering(ensemble.split(), write_quorum) is adheres


def test_ensemble_spans_racks_whatever_the_order_of_the_bookies() -> None:
    assert new_ensemble(policy(), NAMES, 3, 3) == ("a1", "b1", "c1")
    assert new_ensemble(policy(), ("a1", "a2", "b1", "b2"), 4, 2) == ("a1", "b1", "a2", "b2")
    assert new_ensemble(policy(), ("a1", "a2", "a3", "b1"), 3, 3) == ("a1", "b1", "a2")


def test_ensemble_adheres_whenever_any_order_of_any_bookies_does() -> None:
    names = ("a1", "a2", "a3", "b1", "b2", "c1")
    for size, write_quorum, least in ((3, 2, 2), (4, 3, 2), (4, 2, 2), (5, 3, 3), (5, 2, 2)):
        rule = policy(least=least)
        possible = any(rule.is_adhering(order, write_quorum) for order in permutations(names, size))
        assert rule.is_adhering(new_ensemble(rule, names, size, write_quorum), write_quorum) is (
            possible
        )


def test_rack_that_is_taken_back_can_be_laid_at_another_place() -> None:
    def as_they_come(names: Sequence[str], count: int) -> Sequence[str]:
        return names[:count]

    kept = ["a1", None, None, None]
    placement = RackawarePlacement(policy(), as_they_come, kept, [1, 2, 3], 2)
    assert placement(["c1", "b1", "b2"], 3) == ["b1", "c1", "b2"]


def test_where_racks_are_too_few_as_many_are_spanned_as_there_are() -> None:
    assert new_ensemble(policy(least=3), ("a1", "a2", "b1"), 3, 3) == ("a1", "b1", "a2")
    assert new_ensemble(policy(), ("a1", "a2", "a3"), 3, 2) == ("a1", "a2", "a3")
    assert new_ensemble(policy({}), ("a1", "a2", "a3"), 3, 2) == ("a1", "a2", "a3")


def test_rack_is_laid_no_more_often_than_it_has_bookies() -> None:
    """Four bookies in a ring cannot alternate if rack a has only one; then the rule is dropped."""
    names = ("a1", "b1", "b2", "b3")
    assert new_ensemble(policy(), names, 4, 2) == names


def test_enforced_rule_makes_no_other_ensemble() -> None:
    strict = policy(enforced=True)
    assert new_ensemble(strict, ("a1", "a2", "b1", "b2"), 4, 2) == ("a1", "b1", "a2", "b2")
    with pytest.raises(BKNotEnoughBookiesException, match="racks"):
        new_ensemble(strict, ("a1", "a2", "a3"), 3, 2)
    # The racks of x1 and x2 are unknown.
    with pytest.raises(BKNotEnoughBookiesException, match="racks"):
        new_ensemble(strict, ("a1", "x1", "x2"), 2, 2)
    assert not strict.is_adhering(("a1", "x1"), 2)


def test_rule_is_enforced_only_where_that_is_asked_for() -> None:
    rule = RackawareEnsemblePlacementPolicy(BY_NAME, 2)
    assert new_ensemble(rule, ("a1", "a2"), 2, 2) == ("a1", "a2")


def test_bookie_that_was_chosen_counts_for_the_next_place() -> None:
    placement = RackawarePlacement(policy(), in_name_order, [None, None], range(2), 2)
    assert placement(("a1", "a2", "b1"), 1) == ["a1"]
    assert placement(("a2", "b1"), 1) == ["b1"]


def test_replacement_keeps_write_sets_apart() -> None:
    assert replaced(policy(), ["a1", "b1", "a2", "b2"], [1], NAMES, 2) == "a1 b3 a2 b2"
    assert replaced(policy(), ["a1", "b1", "c1"], [0, 2], NAMES, 3) == "a2 b1 c2"
    assert replaced(policy(), ["a1", "b1"], [1], ("a1", "a2", "b1"), 2) == "a1 a2"


def test_quarantined_bookie_in_the_right_rack_comes_after_any_other() -> None:
    """Two bookies in one rack are better than a quarantined bookie, unless the rule is enforced."""
    names = ("a1", "a2", "b2")
    assert replaced(policy(), ["a1", "b1"], [1], names, 2, ["b2"]) == "a1 a2"
    strict = policy(enforced=True)
    assert replaced(strict, ["a1", "b1"], [1], ("a1", "a2"), 2) == "a1 b1"
    assert replaced(strict, ["a1", "b1"], [1], names, 2, ["b2"]) == "a1 b2"


def test_as_few_bookies_as_help_are_moved() -> None:
    assert policy().replace_to_adhere(["a1", "b1", "c1"], NAMES, 3) == {}
    assert policy().replace_to_adhere(["a1", "a2", "a3"], NAMES, 3) == {0: "b1"}
    assert policy().replace_to_adhere(["a1", "a2", "b1", "b2"], NAMES, 2) == {0: "c1", 2: "c2"}
    assert policy().replace_to_adhere(["a1", "a2"], ("a1", "a2", "a3"), 2) == {}
