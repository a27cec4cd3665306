"""Test which bookies a client quarantines, and for how long."""

import pytest

from labkit.system.client.placement.bookie_watcher import Quarantine
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKTimeoutException,
    BKWriteException,
    BKWriteOnReadOnlyBookieException,
)

FAILED = BKTimeoutException("no answer")


def test_a_bookie_that_fails_often_enough_in_the_interval_is_put_aside_for_the_time() -> None:
    quarantine = Quarantine(threshold=3, interval_s=10.0, time_s=60.0)
    for now in (0.0, 6.0, 12.0):
        quarantine.count("b1", FAILED, now)
        assert quarantine.quarantined(now) == []
    quarantine.count("b1", FAILED, 16.0)
    quarantine.count("b2", FAILED, 16.0)
    assert quarantine.quarantined(16.0) == quarantine.quarantined(75.9) == ["b1"]
    assert quarantine.quarantined(76.0) == []


@pytest.mark.parametrize(
    ("error", "inmates"),
    [
        (BKBookieHandleNotAvailableException("down"), []),
        (BKWriteOnReadOnlyBookieException("full"), []),
        (BKTimeoutException("no answer"), ["b1"]),
        (BKWriteException("its disk failed"), ["b1"]),
    ],
)
def test_a_bookie_that_is_known_to_take_nothing_is_not_put_aside(
    error: BKException, inmates: list[str]
) -> None:
    quarantine = Quarantine(threshold=1, interval_s=10.0, time_s=60.0)
    quarantine.count("b1", error, 0.0)
    assert quarantine.quarantined(0.0) == inmates


def test_a_bookie_that_fails_on_in_quarantine_stays_longer() -> None:
    quarantine = Quarantine(threshold=2, interval_s=10.0, time_s=60.0)
    for now in (0.0, 1.0, 5.0):
        quarantine.count("b1", FAILED, now)
    assert quarantine.quarantined(64.9) == ["b1"]
    assert quarantine.quarantined(65.0) == []
