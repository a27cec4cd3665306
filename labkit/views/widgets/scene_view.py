"""The base class of views that are drawn as scenes: the picture, its controls, and clicks.

The browser does not know what a view shows: it only plays the film, displays the controls and
reports clicks. `PlayingView` is the base class of views of a run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from uuid import uuid4

import traitlets

from labkit.views.widgets.bundle import bundle
from labkit.views.widgets.controls import Control
from labkit.views.widgets.drawing.palette import LIVE_STYLE
from labkit.views.widgets.drawing.scene import Mark, still
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.view import View

_BROWSER = files("labkit.views.widgets") / "browser"
MODULE = bundle(_BROWSER, "view")
STYLE = LIVE_STYLE + (_BROWSER / "view.css").read_text(encoding="utf-8")

Message = dict[str, Any]


class SceneView(View):
    """Base class of all views; a view that does not show a run defines `scene` and calls
    `redraw`.
    """

    _esm = MODULE
    _css = STYLE

    film = traitlets.Dict().tag(sync=True)
    controls: traitlets.List[Message] = traitlets.List(traitlets.Dict()).tag(sync=True)
    notice = traitlets.Unicode("").tag(sync=True)
    ended = traitlets.Unicode("").tag(sync=True)
    """Why the picture no longer changes and has no buttons, or ""."""

    question: str = ""
    """The title line: the question that the view answers."""

    def __init__(self) -> None:
        self._name = str(uuid4())
        super().__init__(film=self.whole(), controls=self.choices())
        self.on_msg(self.received)

    def scene(self) -> Mark:
        raise NotImplementedError

    def legend(self) -> Mark | None:
        return None

    def texts(self) -> list[tuple[str, str]]:
        """Return the collapsible texts below the picture, as (title, text) pairs."""
        return []

    def choices(self) -> list[Control]:
        """Return the controls above the picture."""
        return []

    def chosen(self, name: str, value: Any) -> None:
        """Apply the reader's choice; the caller then calls `redraw`."""

    def choose(self, name: str, value: Any, seq: int) -> None:
        """Handle a choice. `seq`: the last event on display when the reader made the choice."""
        self.chosen(name, value)
        self.redraw()

    def pressed(self, act: str, on: str, seq: int) -> None:
        """Handle a click on a button in the picture. `seq`: the last event on display at the time
        of the click.
        """
        self.notice = f"This view has no button to {act} {on}."

    def redraw(self) -> None:
        """Draw the picture again."""
        self.update_page()

    def update_page(self) -> None:
        with self.hold_sync():
            self.film, self.controls = self.whole(), self.choices()

    def svg(self) -> str:
        return still(self.scene(), self.legend(), words=repr(self), title=self.question)

    def whole(self) -> Message:
        film = Film()
        film.add(Beat(0, self.scene()))
        return self.choices_message(film, 0)

    def film_message(self, film: Film) -> Message:
        """Return the part of a message that contains the film, the legend and the texts."""
        legend = film.number(self.legend())
        head = {"kind": "whole", "title": self.question, "texts": self.texts(), "legend": legend}
        return head | film.whole()

    def choices_message(self, film: Film, chosen: int, slider: str = "") -> Message:
        """Return a message with a film that does not show a run. Each beat is an item that the
        reader can choose, and the film opens at the item `chosen`.

        The browser receives all items and reports which of them is on display; `on_shown` handles
        the report.
        slider: the label of the slider; if empty, the slider is hidden.
        """
        first, last = film.beats[chosen].at, film.beats[-1].at
        no_run = {"knots": [], "signs": [], "skips": [], "number": 0, "live": False}
        place = {"run": self._name, "end": last, "opening": first, "reports": True}
        return {**no_run, **place, "slider": slider, **self.film_message(film)}

    def on_shown(self, number: int) -> None:
        """Called when the browser shows the beat with this `seq` in a film of choices."""

    def open_at(self, position: float) -> None:
        """Make the view open at `position` the next time it is displayed. Nothing is sent, because
        the page has already changed its own copy of the film.
        """
        self.film["opening"] = position

    def received(self, _view: object, message: Message, _buffers: object) -> None:
        """Handle a message from the browser. This can be called in any thread, possibly while a
        cell is running.
        """
        self.handle(message)

    def handle(self, message: Message) -> None:
        """Process a message; report unknown messages in the view's notice."""
        self.notice = ""
        with self.reporting_errors("The action failed"):
            self._handle(message)

    @contextmanager
    def reporting_errors(self, what: str) -> Iterator[None]:
        """Show exceptions in the notice, prefixed with `what`, because readers do not see the
        kernel's log. The exceptions are re-raised, so that they also appear in that log.
        """
        try:
            yield
        except Exception as error:
            self.notice = f"{what}: {type(error).__name__}: {error}"
            raise

    def _handle(self, message: Message) -> None:
        match message:
            case {"do": "resync"}:
                self.send(self.whole())
            case {"do": "shown", "seq": number}:
                self.on_shown(number)
            case {"set": name, "value": value} if name in {each["name"] for each in self.choices()}:
                self.choose(name, value, message.get("seq", -1))
            case {"do": act, "on": on}:
                self.pressed(act, on, message.get("seq", -1))
            case _:
                self.notice = f"The view received an unknown message from its page: {message}"
