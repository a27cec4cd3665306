"""The check of the site's links finds each kind of broken link."""

from pathlib import Path

import pytest

from tools.site.links import broken_links, main, pages


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "tab/lab").mkdir(parents=True)
    (tmp_path / "tab/files").mkdir()
    (tmp_path / "tab/lab/index.html").write_text("")
    (tmp_path / "tab/files/01-entry.ipynb").write_text("{}")
    (tmp_path / "other.html").write_text('<h1 id="start">Other</h1>')
    return tmp_path


def written(site: Path, link: str) -> Path:
    (site / "index.html").write_text(f'<a id="top" href="{link}">a link</a>')
    return site


@pytest.mark.parametrize(
    "link",
    [
        *("other.html", "other.html#start", "#top", "https://example.org/none"),
        "tab/lab/index.html?path=01-entry.ipynb",
    ],
)
def test_a_link_that_leads_somewhere_is_not_broken(site: Path, link: str) -> None:
    assert broken_links(written(site, link)) == []


@pytest.mark.parametrize(
    "link",
    [
        *("none.html", "other.html#none", "#none", "../outside.html"),
        "tab/lab/index.html?path=02-journal.ipynb",
    ],
)
def test_a_broken_link_is_named_with_its_page(site: Path, link: str) -> None:
    assert broken_links(written(site, link)) == [f"index.html: {link}"]
    with pytest.raises(SystemExit, match=link[:4]):
        main([str(site)])


def test_the_pages_of_the_tab_are_not_checked(site: Path) -> None:
    written(site, "other.html")
    assert [path.name for path in pages(site)] == ["index.html", "other.html"]
