"""Cards: the feedback that learners see, as text and as HTML for light and dark themes.

A card's text is the same in every run, so a committed notebook can be compared with the output of a
new run.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from html import escape
from typing import Any, Protocol, runtime_checkable

from IPython.display import display

from labkit.views.widgets.view import View

# JupyterLab's CSS variables follow its theme. Elsewhere, the fallback is readable on both light and
# dark backgrounds.
_BLOCK = (
    "border-left:4px solid {colour};padding:.3em .9em;margin:.3em 0;"
    "color:var(--jp-content-font-color1,inherit)"
)
# By default, JupyterLab breaks preformatted text in the middle of words.
_WORDS_STYLE = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
_NEUTRAL = "var(--jp-brand-color1,#2b7bba)"


class CardState(StrEnum):
    """The status of an exercise.

    Each value is the symbol shown before the exercise's name, so that colour is not the only
    indication of the status.
    """

    PASSED = "✔"
    REFUSED = "✘"
    OPEN = "○"


_WORDS = {CardState.PASSED: "passed", CardState.REFUSED: "not yet", CardState.OPEN: "open"}
_COLOURS = {
    CardState.PASSED: "var(--jp-success-color1,#2a8a5d)",
    CardState.REFUSED: "var(--jp-error-color1,#d0552b)",
    CardState.OPEN: _NEUTRAL,
}


@runtime_checkable
class Playable(Protocol):
    def view(self) -> object:
        """Return a picture of the moment at which the promise was broken. If the picture is a
        `View`, it is interactive.
        """


@runtime_checkable
class Linked(Protocol):
    def link(self, code: str = "") -> str:
        """Return a link to the run, or "" if there is no link. If `code`, the learner's code, is
        given, the link includes it as text.
        """


@dataclass(frozen=True, slots=True, repr=False)
class Card:
    """The result of `check`.

    message: one sentence; if the answer was refused, this is the rule that it broke.
    counterexample: the smallest case that breaks the rule, as an object with a `str` or an HTML
        representation, or None. A `View`, or an object with a `view()` method, is shown below the
        card and is interactive.
    asked: the call of the learner's function that led to the counterexample, as text, or None.
    """

    name: str
    outcome: CardState
    message: str
    counterexample: object = None
    asked: object = None

    @property
    def passed(self) -> bool:
        return self.outcome is CardState.PASSED

    def link(self, learner: Any = None) -> str:
        """Return a link to the run that refutes the answer, or "" if no simulated run refutes it.

        The link includes the learner's code as text only if the learner's function or class is
        passed as `learner`. Raises `OSError` if the source code is not available.
        """
        code = "" if learner is None else inspect.getsource(learner)
        return self.counterexample.link(code) if isinstance(self.counterexample, Linked) else ""

    def __repr__(self) -> str:
        text = f"{self.outcome} {self.name}: {_WORDS[self.outcome]}. {self.message}"
        parts = (text, self.asked, self.counterexample)
        return "\n".join(str(part) for part in parts if part is not None)

    def _ipython_display_(self) -> None:
        """Display the card. If there is an interactive view, display it below the card, because
        views do not work inside cards.
        """
        view = self._view()
        if view is None:
            raise NotImplementedError("the card's HTML already shows everything")
        card = {"text/plain": repr(self), "text/html": self._repr_html_()}
        display(card, raw=True)  # type: ignore[no-untyped-call]
        display(view)  # type: ignore[no-untyped-call]

    def _view(self) -> View | None:
        shown = self.counterexample
        view = shown.view() if isinstance(shown, Playable) else shown
        return view if isinstance(view, View) else None

    def still_counterexample(self) -> str:
        """Return the counterexample as HTML that works without a kernel, or "" if there is no
        counterexample.
        """
        view = self._view()
        return self._picture() + ("" if view is None else view.image())

    def _picture(self) -> str:
        """Return the part of the counterexample that is shown inside the card."""
        shown = self.counterexample
        return "" if shown is None or isinstance(shown, View) else picture_of(shown)

    def _repr_html_(self) -> str:
        title = f"{self.outcome} {self.name}: {_WORDS[self.outcome]}"
        asked = "" if self.asked is None else _paragraph(str(self.asked))
        inside = _paragraph(self.message) + asked + self._picture()
        return _block(_COLOURS[self.outcome], title, inside)


@dataclass(frozen=True, slots=True, repr=False)
class Note:
    title: str
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join((self.title, *(f"  {line}" for line in self.lines)))

    def _repr_html_(self) -> str:
        return _block(_NEUTRAL, self.title, "".join(map(_paragraph, self.lines)))


def picture_of(value: object) -> str:
    """Return the value's own HTML or, if it has none, its text as preformatted HTML."""
    html: Callable[[], str] | None = getattr(value, "_repr_html_", None)
    if html is not None:
        return html()
    return f'<pre style="{_WORDS_STYLE}">{escape(str(value))}</pre>'


def _block(colour: str, title: str, inside: str) -> str:
    return f'<div style="{_BLOCK.format(colour=colour)}"><b>{escape(title)}</b>{inside}</div>'


def _paragraph(text: str) -> str:
    return f'<p style="margin:.3em 0;white-space:pre-wrap">{escape(text)}</p>'
