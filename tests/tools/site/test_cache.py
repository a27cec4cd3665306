"""Tests that a build regenerates only what has changed."""

from pathlib import Path

import pytest

from tools.site.cache import keep, mirror


def test_a_folder_is_made_again_only_if_its_digest_has_changed(tmp_path: Path) -> None:
    folder, made = tmp_path / "tab", list[str]()

    def make() -> None:
        assert not folder.exists()
        folder.mkdir()
        made.append("made")

    for digest in ("one", "one", "two"):
        keep(folder, digest, make)
    assert len(made) == 2


def test_a_folder_whose_build_failed_is_made_again(tmp_path: Path) -> None:
    folder, made = tmp_path / "tab", list[str]()

    def fail() -> None:
        folder.mkdir()
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        keep(folder, "one", fail)
    keep(folder, "one", lambda: made.append("made"))
    assert made == ["made"]


def test_a_mirror_leaves_unchanged_files_alone_and_deletes_what_is_gone(tmp_path: Path) -> None:
    new, kept = tmp_path / "new", tmp_path / "kept"
    for folder in (new, kept):
        (folder / "course").mkdir(parents=True)
        (folder / "course" / "same.md").write_text("same")
    (new / "changed.md").write_text("after")
    (kept / "changed.md").write_text("before")
    (kept / "gone.md").write_text("gone")
    before = (kept / "course" / "same.md").stat()
    mirror(new, kept)
    assert (kept / "course" / "same.md").stat() == before
    assert {path.name: path.read_text() for path in kept.rglob("*.md")} == {
        "same.md": "same",
        "changed.md": "after",
    }
