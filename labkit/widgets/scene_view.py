"""Any view that is drawn as a scene: what it shows, what it lets choose, and what a click does.

The browser knows none of them: it draws the film that it gets, offers the choices, and tells what
was pressed.  `PlayingView` is the one for what moves.
"""

from pathlib import Path
from typing import Any
from uuid import uuid4

import traitlets

from labkit.widgets.bundle import bundle
from labkit.widgets.film import Beat, Film
from labkit.widgets.palette import LIVE_STYLE
from labkit.widgets.scene import Mark, still
from labkit.widgets.view import View

_BROWSER = Path(__file__).parent / "browser"
MODULE = bundle(_BROWSER, "view")
STYLE = LIVE_STYLE + (_BROWSER / "view.css").read_text(encoding="utf-8")

Message = dict[str, Any]


class SceneView(View):
    """The base of all views.  One that stands still gives a `scene`, and `redraw`s what changed."""

    _esm = MODULE
    _css = STYLE

    film = traitlets.Dict().tag(sync=True)
    controls: traitlets.List[Message] = traitlets.List(traitlets.Dict()).tag(sync=True)
    notice = traitlets.Unicode("").tag(sync=True)

    def __init__(self) -> None:
        self._name = str(uuid4())
        super().__init__(film=self.whole(), controls=self.choices())
        self.on_msg(self.received)

    def scene(self) -> Mark:
        """The picture, at the moment at which the view stands at first."""
        raise NotImplementedError

    def legend(self) -> Mark | None:
        """What its signs mean."""
        return None

    def texts(self) -> list[tuple[str, str]]:
        """Texts that fold away below the picture: what each is, and its lines."""
        return []

    def choices(self) -> list[Message]:
        """What can be chosen, for `browser/controls.js`."""
        return []

    def chosen(self, name: str, value: Any) -> None:
        """A choice was made; `redraw` follows."""

    def pressed(self, act: str, on: str) -> None:
        """A button of the picture was pressed; `redraw` follows."""

    def redraw(self) -> None:
        """Send what the view shows now."""
        with self.hold_sync():
            self.film, self.controls = self.whole(), self.choices()

    def svg(self) -> str:
        """The picture with its legend, as an SVG document."""
        legend = self.legend()
        scenes = (self.scene(), *([legend] if legend else []))
        return still(*scenes, words=repr(self))

    def whole(self) -> Message:
        """All that the browser needs."""
        film = Film()
        film.add(Beat(0, self.scene()))
        nothing: Message = {"knots": [], "signs": [], "skips": [], "end": 0, "opening": 0}
        return {**nothing, **self.film_message(film), "run": self._name, "number": 0, "live": False}

    def film_message(self, film: Film) -> Message:
        """A film, the legend and the texts."""
        legend = self.legend()
        row = film.number(legend) if legend else -1
        return {"kind": "whole", "legend": row, "texts": self.texts(), **film.whole()}

    def received(self, _view: object, message: Message, _buffers: object) -> None:
        """A message of the browser.  It may come in any thread, and while a cell runs."""
        if "set" in message:
            self.chosen(message["set"], message["value"])
        elif message["do"] != "resync":
            self.pressed(message["do"], message["on"])
        self.redraw()
