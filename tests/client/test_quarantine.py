"""Which bookies a client puts aside for a time."""

from labkit.client.bookie_watcher import Quarantine
from labkit.model.errors import BKBookieHandleNotAvailableException, BKTimeoutException

FAILED = BKTimeoutException("no answer")


def test_a_bookie_that_fails_often_enough_in_the_interval_is_put_aside_for_the_time() -> None:
    quarantine = Quarantine(threshold=3, interval_s=10.0, time_s=60.0)
    for now in (0.0, 6.0, 12.0):
        quarantine.count("b1", FAILED, now)
        assert quarantine.inmates(now) == []
    quarantine.count("b1", FAILED, 16.0)
    quarantine.count("b2", FAILED, 16.0)
    assert quarantine.inmates(16.0) == quarantine.inmates(75.9) == ["b1"]
    assert quarantine.inmates(76.0) == []


def test_a_bookie_that_is_down_is_known_to_be_and_not_put_aside() -> None:
    quarantine = Quarantine(threshold=1, interval_s=10.0, time_s=60.0)
    quarantine.count("b1", BKBookieHandleNotAvailableException("down"), 0.0)
    assert quarantine.inmates(0.0) == []
