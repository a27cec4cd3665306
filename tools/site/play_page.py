"""Generates the page with the game. Each level is a link to the moment of the first move, and the
page itself opens this link.

The picture of each level is made when the site is built. While the visitor looks at the picture,
the worker starts Python.
"""

from dataclasses import replace
from html import escape
from pathlib import Path
from string import Template

from labkit.course.runs.game.game import Game
from labkit.course.runs.game.levels import LEVELS
from labkit.views.widgets.scene_view import MODULE, STYLE
from labkit.worlds.sim.run_link import RunLink
from tools.site.views import Views

_TEXT = Path(__file__).parent / "theme" / "play.md"


def play_page(views: Views) -> str:
    """Return the page as Markdown."""
    items = "".join(_level(number, views) for number in range(1, len(LEVELS) + 1))
    return Template(_TEXT.read_text(encoding="utf-8")).substitute(views.files(), levels=items)


def _level(number: int, views: Views) -> str:
    """Prepare the picture of a level; return the link to it as a list item."""
    game = Game(number)
    traits = {"film": game.film, "controls": [], "notice": "", "ended": ""}
    views.place({"_esm": MODULE, "_css": STYLE, **traits}, "")
    link = RunLink.parse(game.film["link"])
    fragment = replace(link, at=game.played.trace.events[-1].seq).fragment()
    level = game.level
    text = f"{level.title}</a>: {escape(level.goal)} Par: {level.par}."
    tick = f'<span class="lk-tick" data-level="{number}"></span>'
    return f'<li>{tick}<a href="#{fragment}">{text}</li>'
