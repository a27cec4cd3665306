"""A release contains its version's notes and a source distribution that can build the wheel."""

import tarfile
import zipfile
from pathlib import Path

import pytest

from labkit import __version__
from tools.site.pyodide import ROOT, CannotBuildError

pytest.importorskip("sphinx", reason="pip install -e '.[site]'")
from tools.release import __main__ as release
from tools.release.__main__ import release_notes

CHANGELOG = "# Changelog\n\n## [2.0.0] - unreleased\n\n- new\n\n## [1.0.0]\n\n- old\n"


def test_the_notes_are_the_section_of_the_version() -> None:
    assert release_notes(CHANGELOG, "2.0.0") == "# labkit 2.0.0\n\n- new\n"
    assert release_notes(CHANGELOG, "1.0.0") == "# labkit 1.0.0\n\n- old\n"


@pytest.mark.parametrize("changelog", [CHANGELOG, "## [3.0.0]\n\n## [2.0.0]\n\n- new\n"])
def test_a_version_without_changes_is_not_released(changelog: str) -> None:
    with pytest.raises(CannotBuildError, match=r"3\.0\.0"):
        release_notes(changelog, "3.0.0")


def test_the_changelog_has_notes_for_the_current_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert "Ledger client" in release_notes(text, __version__)


def test_a_source_distribution_that_lacks_a_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_wheel(*_: str, folder: Path) -> None:
        with zipfile.ZipFile(folder.parent / "labkit-1.whl", "w") as archive:
            archive.writestr("labkit/__init__.py", "")

    monkeypatch.setattr(release, "run_command", write_wheel)
    (tmp_path / "labkit-1").mkdir()
    with tarfile.open(tmp_path / "labkit-1.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "labkit-1", "labkit-1")
    whole = tmp_path / "labkit-1.whl"
    for names in (["labkit/__init__.py"], ["labkit/__init__.py", "labkit/py.typed"]):
        with zipfile.ZipFile(whole, "w") as wheel:
            for name in names:
                wheel.writestr(name, "")
        if len(names) == 1:
            release.check_source(tmp_path / "labkit-1.tar.gz", whole)
        else:
            with pytest.raises(CannotBuildError, match=r"py\.typed"):
                release.check_source(tmp_path / "labkit-1.tar.gz", whole)
