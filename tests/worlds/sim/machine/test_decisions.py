"""Tests randomness in the simulated world: named decisions with a harmless default."""

from labkit.worlds.sim.machine.decisions import Decisions, log_spread


def test_without_a_seed_every_decision_is_harmless() -> None:
    decisions = Decisions(None, {}, lambda: 0)
    assert {decisions.of("delay a>b").value_of(number, 1.0) for number in range(100)} == {0.0}
    assert decisions.drawn == {}


def test_a_decision_depends_on_the_seed_and_its_name_alone() -> None:
    def draw(*names: str) -> dict[str, list[float]]:
        decisions = Decisions(7, {}, lambda: 0)
        return {name: [decisions.of(name).value_of(n, 0.5) for n in range(64)] for name in names}

    assert draw("x", "y") == draw("y", "x")
    assert draw("x")["x"] != draw("y")["y"]


def test_the_share_is_kept_to() -> None:
    taken = [
        Decisions(seed, {}, lambda: 0).of("lose a>b").value_of(seed, 0.2) for seed in range(2000)
    ]
    assert 300 < sum(taken) < 500


def test_a_chosen_decision_holds_with_and_without_a_seed_and_0_takes_one_back() -> None:
    for seed in (None, 1):
        decisions = Decisions(seed, {"delay w>b0 2": 30.0, "lose w>b0 5": 0.0}, lambda: 0)
        assert decisions.of("delay w>b0").value_of(2, 0.0) == 30.0
        assert decisions.of("lose w>b0").value_of(5, 1.0) == 0.0
        assert decisions.drawn == {"delay w>b0 2": 30.0}


def test_spread_values_lie_in_their_range() -> None:
    spread = log_spread(0.1, 50)
    values = [spread(lot / 100) for lot in range(100)]
    assert values == sorted(values)
    assert min(values) >= 0.1
    assert max(values) <= 50
