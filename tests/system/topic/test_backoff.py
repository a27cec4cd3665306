"""Tests for the backoff after consecutive failures."""

from labkit.system.topic.backoff import FIRST_PAUSE_S, MAX_PAUSE_S, Backoff


def test_each_pause_is_twice_the_one_before_up_to_the_longest() -> None:
    pauses = Backoff(0.5, 6.0)
    assert [pauses.next_pause_s() for _ in range(7)] == [0.5, 1.0, 2.0, 4.0, 6.0, 6.0, 6.0]


def test_first_failure_after_a_success_has_the_first_pause_again() -> None:
    pauses = Backoff(0.5, 6.0)
    pauses.reset()
    assert [pauses.next_pause_s(), pauses.next_pause_s()] == [0.5, 1.0]
    pauses.reset()
    assert [pauses.next_pause_s(), pauses.next_pause_s()] == [0.5, 1.0]


def test_pauses_between_ledgers_go_from_a_tenth_of_a_second_to_ten_seconds() -> None:
    assert (FIRST_PAUSE_S, MAX_PAUSE_S) == (0.1, 10.0)
