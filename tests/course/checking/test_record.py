"""Tests that predictions and hints are saved only while the learner's switch is on."""

import json
from pathlib import Path

import pytest

from labkit.course.checking.record import FILE
from labkit.course.lessons import compare, hint, predict, record


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def work() -> None:
    predict("padding", 12)
    compare("padding", 8)
    hint("entry.length")


def saved() -> list[dict[str, object]]:
    return [json.loads(line) for line in Path(FILE).read_text(encoding="utf-8").splitlines()]


def test_without_consent_nothing_is_written(folder: Path) -> None:
    assert not record().value
    work()
    assert list(folder.iterdir()) == []


def test_with_the_switch_on_each_prediction_and_hint_is_a_line() -> None:
    record().value = True
    work()
    consent, predicted, compared, hinted = saved()
    assert consent == {"event": "consent"}
    assert predicted == {"event": "predicted", "name": "padding", "predicted": "12"}
    assert compared == predicted | {"event": "compared", "truth": "8", "is_right": False}
    assert (hinted["event"], hinted["name"]) == ("hint", "entry.length")


def test_turning_the_switch_off_deletes_the_file_and_stops_saving(folder: Path) -> None:
    switch = record()
    switch.value = True
    switch.value = False
    work()
    assert list(folder.iterdir()) == []


def test_deleting_the_file_withdraws_the_consent(folder: Path) -> None:
    record().value = True
    Path(FILE).unlink()
    work()
    assert list(folder.iterdir()) == []
    assert not record().value


def test_another_notebook_of_the_folder_shows_the_switch_as_it_is_and_keeps_the_lines() -> None:
    record().value = True
    work()
    before = saved()
    assert record().value
    assert repr(record()).startswith("☑")
    assert saved() == before
