"""The folder for a class without internet, wherever the command stands."""

from pathlib import Path

import pytest

pytest.importorskip("jupyterlite_core", reason="pip install -e '.[site]'")

from labkit.site import build, offline


def test_a_relative_folder_is_meant_from_where_the_command_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parts are built by commands that run in other folders."""
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
