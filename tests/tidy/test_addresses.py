"""Tests that the published address is written only to pyproject.toml and a block of README.md."""

import shutil
from pathlib import Path

import pytest

from tests.tidy.test_environment import ROOT
from tools.site import address
from tools.site.address import README_BLOCK, Address, change


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.setattr(address, "_ROOT", tmp_path)
    return tmp_path


def test_a_checkout_names_no_address(copies: Path) -> None:
    assert Address.of_project() is None
    assert "://" not in README_BLOCK.search((copies / "README.md").read_text())[0]  # type: ignore[index]


@pytest.mark.parametrize("earlier", [(), ("https://github.com/first/lab",)])
def test_an_address_is_written_into_the_project_and_into_one_block_of_the_readme(
    copies: Path, earlier: tuple[str, ...]
) -> None:
    before = (copies / "README.md").read_text()
    for address_ in (*earlier, "https://github.com/Somebody/storage-lab"):
        change(address_)
    published = Address.of_project()
    assert published is not None
    assert published.site == "https://somebody.github.io/storage-lab/"
    after = (copies / "README.md").read_text()
    [block] = [each[0] for each in README_BLOCK.finditer(after)]
    assert published.site in block
    assert published.binder("00-tour.ipynb") in block
    assert "first/lab" not in after + (copies / "pyproject.toml").read_text()
    assert README_BLOCK.sub("", after) == README_BLOCK.sub("", before)


@pytest.mark.parametrize("wrong", ["", "labkit", "https://github.com/owner", "owner/name"])
def test_what_is_not_an_address_of_a_repository_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="expected a URL such as"):
        change(wrong)
