"""Tests `python -m benchmarks`, which runs benchmark families one after the other."""

import os
import time
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from benchmarks.__main__ import wait_until_quiet


def waited(monkeypatch: pytest.MonkeyPatch, loads: Iterator[float]) -> int:
    """Return how many seconds a family waits if it observes these load averages."""
    now = [0]
    monkeypatch.setattr(os, "getloadavg", lambda: (next(loads), 0.0, 0.0))
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda _: now.append(now.pop() + 1))
    wait_until_quiet()
    return now[0]


def test_a_family_waits_until_the_load_of_the_one_before_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waited(monkeypatch, chain((3.0, 1.0, 0.6), repeat(0.4))) == 3


def test_a_family_begins_after_three_minutes_on_a_machine_that_stays_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert waited(monkeypatch, repeat(2.0)) == 180
