"""Tests for the backoff after consecutive failures."""

from labkit.system.topic.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_start_again_after_a_success() -> None:
    pauses = Backoff(0.5, 6.0)
    for _ in range(2):
        pauses.reset()
        assert [pauses.next_pause_s() for _ in range(7)] == [0.5, 1.0, 2.0, 4.0, 6.0, 6.0, 6.0]
