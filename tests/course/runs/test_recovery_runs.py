"""Tests the runs of lesson 08."""

from itertools import combinations

from labkit.course.predictions.lesson_08 import PREDICTIONS
from labkit.course.runs.recovery_runs import damaged_copy, rejected_adds
from labkit.system.check import broken, check_all
from labkit.worlds.sim.run import run


def test_a_fenced_bookie_rejects_the_writer_but_not_recovery() -> None:
    assert rejected_adds() == ["C"]


def test_every_other_list_of_rejected_adds_is_explained() -> None:
    prediction = PREDICTIONS["adds that a bookie rejects"]
    for count in range(5):
        for letters in combinations("ABCD", count):
            is_explained = prediction.why_not(list(letters), {}) != prediction.look
            assert is_explained == (letters != ("C",))


def test_the_real_recovery_keeps_every_promise_although_a_copy_is_damaged() -> None:
    assert broken(check_all(run(damaged_copy()))) == []
