import errno
from pathlib import Path

import pytest

from labkit import shipped_files as files
from labkit.shipped_files import copy_notebooks, put_whole, shipped
from labkit.views.spark import flights


@pytest.fixture
def notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate an installed labkit with two notebooks, one of which is in a subdirectory."""
    inside = tmp_path / "installed/labkit/notebooks"
    (inside / "solutions").mkdir(parents=True)
    for name in ("00-tour.ipynb", "solutions/01-entry.ipynb"):
        (inside / name).write_text(f"as shipped: {name}")
    monkeypatch.setattr(files, "_PACKAGE", inside.parent)
    return inside


def test_notebooks_and_data_of_a_checkout_are_beside_the_package() -> None:
    assert (shipped("notebooks") / "00-tour.ipynb").is_file()
    for sample in (flights.SAMPLE, flights.SAMPLE_LEDGERS, flights.SAMPLE_TRACE):
        assert sample.is_file()


def test_notebooks_of_a_wheel_are_in_the_package(notebooks: Path) -> None:
    assert shipped("notebooks") == notebooks


def test_a_copy_has_every_notebook(notebooks: Path, tmp_path: Path) -> None:
    assert copy_notebooks(tmp_path / "mine") == 2
    found = sorted(path for path in (tmp_path / "mine").rglob("*") if path.is_file())
    assert [path.read_text() for path in found] == [
        "as shipped: 00-tour.ipynb",
        "as shipped: solutions/01-entry.ipynb",
    ]


def test_work_is_never_overwritten(notebooks: Path, tmp_path: Path) -> None:
    copy_notebooks(tmp_path / "mine")
    (tmp_path / "mine/00-tour.ipynb").write_text("my work")
    (notebooks / "02-journal.ipynb").write_text("a new lesson")
    assert copy_notebooks(tmp_path / "mine") == 1
    assert (tmp_path / "mine/00-tour.ipynb").read_text() == "my work"
    assert (tmp_path / "mine/02-journal.ipynb").read_text() == "a new lesson"


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), OSError(errno.ENOSPC, "it is full")])
def test_a_file_is_there_as_a_whole_or_not_at_all(
    problem: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stops_half_way(path: Path, data: bytes) -> None:
        path.write_text("half")
        raise problem

    with monkeypatch.context() as once:
        once.setattr(Path, "write_bytes", stops_half_way)
        with pytest.raises(type(problem)):
            put_whole(tmp_path / "mine/a.py", b"all of it")
    assert list(tmp_path.rglob("*.*")) == []
    put_whole(tmp_path / "mine/a.py", b"all of it")
    assert (tmp_path / "mine/a.py").read_bytes() == b"all of it"
