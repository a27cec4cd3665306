"""Where labkit is published is one line of pyproject.toml; every other link follows from it."""

import shutil
from pathlib import Path

import pytest

from tests.tidy.test_environment import ROOT
from tools.site import address
from tools.site.address import Address, change


def test_the_first_lines_of_readme_open_the_three_doors() -> None:
    first = (ROOT / "README.md").read_text().split("\n\n")[1]
    published = Address.of_project()
    assert f"]({published.site})" in first
    assert f"]({published.binder('00-tour.ipynb')})" in first
    assert "](#start)" in first


def test_another_address_changes_every_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Address.of_project()
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    monkeypatch.setattr(address, "_ROOT", tmp_path)
    change("https://github.com/Somebody/storage-lab")
    assert Address.of_project().site == "https://somebody.github.io/storage-lab/"
    text = (tmp_path / "README.md").read_text() + (tmp_path / "pyproject.toml").read_text()
    assert "https://somebody.github.io/storage-lab/" in text
    assert "/gh/Somebody/storage-lab/HEAD" in text
    assert not any(link in text for link in old.links())


@pytest.mark.parametrize("wrong", ["", "labkit", "https://github.com/owner", "owner/name"])
def test_what_is_not_an_address_of_a_repository_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="not an address"):
        change(wrong)
