"""Tests the offline folder for a class, which can be created from any working directory."""

from pathlib import Path

import pytest

pytest.importorskip("jupyterlite_core", reason="pip install -e '.[site]'")

from tools.site import build, offline


def test_a_relative_folder_is_meant_from_where_the_command_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths must be absolute, because the parts are built by commands in other directories."""
    given: list[Path] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(build, "build_pages", lambda *paths: given.extend(paths[:3]))
    monkeypatch.setattr(build, "build_tab", lambda *paths: given.extend(paths[:3]))
    monkeypatch.setattr(offline, "wheelhouse", given.append)
    offline.build_offline(Path("class"), Path("kept"))
    here = tmp_path / "class"
    assert {here / "site", here / "site/tab", here / "wheelhouse", tmp_path / "kept"} <= set(given)
    assert all(path.is_absolute() for path in given)
    assert (here / "README.md").read_text(encoding="utf-8").startswith("# For teachers")


def test_there_are_wheels_for_the_systems_of_students(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages without a wheel are built first, so that downloads for other systems find them."""
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(offline, "run_command", lambda *words, **_: commands.append(words))
    offline.wheelhouse(tmp_path)
    assert "wheel" in commands[0]
    resolved = [words[words.index("--python-platform") + 1] for words in commands if "uv" in words]
    assert resolved == ["windows", "aarch64-apple-darwin", "x86_64-unknown-linux-gnu"]
    downloads = [words for words in commands if "download" in words]
    for words, tag in zip(downloads, ("win_amd64", "macosx", "manylinux"), strict=True):
        assert any(word.startswith(tag) for word in words)
        assert words[words.index("--find-links") + 1] == str(tmp_path)
