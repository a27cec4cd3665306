"""The version of the code changes with the protocol's code, and with nothing else."""

import shutil
from pathlib import Path

import pytest

import labkit
from labkit.sim.explore import code_version as module
from labkit.sim.explore.code_version import PACKAGES, code_version


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the protocol's code, which is used in place of the real one."""
    root = tmp_path / "labkit"
    for package in PACKAGES:
        shutil.copytree(module._ROOT / package, root / package)
    monkeypatch.setattr(module, "_ROOT", root)
    return root


def test_the_version_is_that_of_the_files(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_copy = code_version().digest
    monkeypatch.undo()
    assert code_version().digest == of_the_copy


@pytest.mark.parametrize("package", PACKAGES)
def test_a_change_of_the_protocol_is_another_version(copy: Path, package: str) -> None:
    before = code_version().digest
    path = copy / package / "__init__.py"
    path.write_bytes(path.read_bytes() + b"# more\n")
    assert code_version().digest != before


def test_what_is_beside_the_protocol_changes_nothing(copy: Path) -> None:
    before = code_version()
    (copy / "widgets").mkdir()
    (copy / "widgets" / "new.py").write_text("")
    (copy / "client" / "notes.txt").write_text("")
    assert code_version() == before


def test_the_code_version_ignores_the_ends_of_lines(copy: Path) -> None:
    before = code_version()
    path = copy / "client" / "writer.py"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert code_version() == before


def test_code_that_is_in_no_repository_has_the_versions_number(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(copy.parent))
    assert code_version().name == f"labkit {labkit.__version__}"
    monkeypatch.setenv("PATH", "")
    assert code_version().name == f"labkit {labkit.__version__}"
