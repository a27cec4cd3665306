"""Finds broken links in the built site.

    python -m tools.site.links FOLDER

prints each broken link, and fails if there is one.

The program checks paths and fragments within the site, and the notebooks that links open in the
tab. It does not connect to other hosts.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

_TARGETS = {"a": "href", "link": "href", "img": "src", "script": "src", "source": "src"}
TAB = "tab"


class _Page(HTMLParser):
    """The links on a page, and the ids to which fragments can refer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids.update(value for name in ("id", "name") if (value := given.get(name)))
        if link := given.get(_TARGETS.get(tag, "")):
            self.links.append(link)


@cache
def _read(path: Path) -> _Page:
    return _Page(path.read_text(encoding="utf-8"))


def pages(site: Path) -> list[Path]:
    apart = (site / TAB, site / "_static")
    found = (path for path in site.rglob("*.html") if not any(map(path.is_relative_to, apart)))
    return sorted(found)


def broken_links(site: Path) -> list[str]:
    """Return each broken link of the site in the form `page: link`."""
    site = site.resolve()
    return [
        f"{page.relative_to(site).as_posix()}: {link}"
        for page in pages(site)
        for link in _read(page).links
        if not _exists(site, page, link)
    ]


def _exists(site: Path, page: Path, link: str) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    if not path.is_file() or not path.is_relative_to(site):
        return False
    if path.is_relative_to(site / TAB):
        notebooks = parse_qs(parts.query).get("path", [])
        return all((site / TAB / "files" / name).is_file() for name in notebooks)
    if parts.fragment.startswith("run.1."):  # Links to runs are opened by a script.
        return True
    return not parts.fragment or unquote(parts.fragment) in _read(path).ids


def main(arguments: list[str]) -> None:
    site = Path(arguments[0])
    if broken := broken_links(site):
        sys.exit("\n".join(broken))
    print(f"{len(pages(site))} pages have no broken link")


if __name__ == "__main__":
    main(sys.argv[1:])
