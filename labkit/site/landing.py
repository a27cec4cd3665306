"""The landing page: a run that moves, and the ways in."""

from collections.abc import Iterable
from pathlib import Path
from string import Template

from labkit.site.address import Address
from labkit.site.doors import doors_html
from labkit.site.lessons import Lesson
from labkit.site.views import Views

_TEXT = Path(__file__).parent / "theme" / "landing.md"


def landing(lessons: Iterable[Lesson], address: Address, views: Views) -> str:
    """Its text, as Markdown."""
    rows = (f"| [{each.title}](course/{each.path.name}) | {_where(each)} |" for each in lessons)
    text = Template(_TEXT.read_text(encoding="utf-8"))
    return text.substitute(run="", doors=doors_html(None, address), course="\n".join(rows))


def _where(lesson: Lesson) -> str:
    return "in a tab" if lesson.in_a_tab else "on Binder, at home"
