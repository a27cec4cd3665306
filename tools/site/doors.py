"""The links at the top of each page, which open the page in a tab, on Binder, or locally."""

from collections.abc import Callable, Iterable
from html import escape
from typing import Any

from tools.site.address import Address
from tools.site.lessons import Lesson


def doors(lessons: Iterable[Lesson], address: Address | None) -> Callable[..., None]:
    """Return a Sphinx handler for `html-page-context` that adds the links to a page."""
    by_page = {f"course/{lesson.path.stem}": lesson for lesson in lessons}

    def with_doors(
        _app: object, page: str, _template: str, context: dict[str, Any], _: object
    ) -> None:
        if "body" in context and page != "index":
            up = "../" * page.count("/")
            context["body"] = doors_html(by_page.get(page), address, up) + context["body"]

    return with_doors


def doors_html(lesson: Lesson | None, address: Address | None, up: str = "") -> str:
    """Return the links as HTML. The links open `lesson` or, if there is no lesson, the tour; `up`
    is the path to the root of the site.
    """
    notebook = lesson.path.name if lesson else "00-tour.ipynb"
    tab = f"{up}tab/lab/index.html?path={notebook}"
    home = f"{up}start.html#start"
    links = [(tab, "Open in a tab")]
    if address:
        links.append((address.binder(notebook), "Open on Binder"))
    links.append((home, "Run at home"))
    note = ""
    if lesson and lesson.needs:
        del links[0]
        tour = (
            f'<a href="{up}tab/lab/index.html?path=00-tour.ipynb">tour of the simulated world</a>'
        )
        runs = "on Binder and at home" if address else "at home"
        note = (
            f"<p>This lesson needs {escape(lesson.needs)}. It runs {runs}. "
            f"A {tour} runs in a browser tab.</p>"
        )
    items = "".join(f'<li><a href="{escape(url)}">{text}</a></li>' for url, text in links)
    return f'<nav aria-label="Where to run this"><ul class="lk-doors">{items}</ul></nav>{note}'
