"""Tests that every bug of `make mutants` can be planted in the current code."""

from pathlib import Path

import pytest

from tests.mutants.mistakes import MISTAKES, Mistake

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.rule)
def test_mistake_has_one_place_and_a_test_file(mistake: Mistake) -> None:
    assert (ROOT / mistake.file).read_text().count(mistake.old) == 1
    assert mistake.new != mistake.old
    assert (ROOT / mistake.tests).is_file()


def test_each_package_of_the_protocol_has_mistakes() -> None:
    packages = {mistake.file.split("/")[2] for mistake in MISTAKES}
    assert packages == {
        "autorecovery",
        "bookie",
        "broker",
        "client",
        "metadata",
        "storage",
        "topic",
    }
