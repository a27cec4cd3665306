"""Tests that the code version changes if and only if the protocol's code or its checks change."""

import shutil
import zipfile
from pathlib import Path

import pytest

import labkit.system
from labkit.worlds.sim.explore import code_version as module
from labkit.worlds.sim.explore.code_version import PACKAGES, code_version

version = code_version.__wrapped__
SOURCE = '''"""What it is for."""

LIMIT = 5
"""How many."""


def first() -> int:
    """The first."""
    return LIMIT
'''


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a small fake protocol."""
    root = tmp_path / "system"
    for package in PACKAGES:
        (root / package).mkdir(parents=True)
        (root / package / "module.py").write_text(SOURCE)
    monkeypatch.setattr(module, "_ROOT", root)
    return root


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_bytes(text.replace(old, new).encode())


def test_the_packages_are_there() -> None:
    assert all((Path(labkit.system.__file__).parent / package).is_dir() for package in PACKAGES)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_change_in_any_package_is_another_version(root: Path, package: str) -> None:
    before = version()
    change(root / package / "module.py", "LIMIT = 5", "LIMIT = 6")
    assert version() != before


def test_a_new_file_is_another_version(root: Path) -> None:
    before = version()
    (root / "client" / "more.py").write_text("")
    assert version() != before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("What it is for.", "What is it for?"),
        ("How many.", "The number of them."),
        ("The first.", "The first one."),
        ("LIMIT = 5", "LIMIT = 5  # more are too many"),
        ("return LIMIT", "return (\n        LIMIT\n    )"),
        ("\n", "\r\n"),
    ],
)
def test_texts_and_layout_do_not_matter(root: Path, old: str, new: str) -> None:
    before = version()
    change(root / "client" / "module.py", old, new)
    assert version() == before


def test_what_is_beside_the_protocol_changes_nothing(root: Path) -> None:
    before = version()
    (root / "widgets").mkdir()
    (root / "widgets" / "new.py").write_text("")
    (root / "client" / "notes.txt").write_text("")
    assert version() == before


def test_a_change_in_a_zip_file_is_another_version(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_folder = version()

    def zipped() -> str:
        archive = Path(shutil.make_archive(str(root), "zip", root.parent, root.name))
        monkeypatch.setattr(module, "_ROOT", zipfile.Path(archive, "system/"))
        return version()

    assert zipped() == in_folder
    change(root / "client" / "module.py", "LIMIT = 5", "LIMIT = 6")
    assert zipped() != in_folder


def test_without_source_there_is_no_version(root: Path) -> None:
    for path in (root / "client").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError, match=r"the source of labkit\.system\.client is not in"):
        version()
