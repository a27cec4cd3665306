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

    def choose(self, name: str, value: Any, seq: int) -> None:
        """A choice was made while the event of that `seq` was the last that was shown."""
        self.chosen(name, value)
        self.redraw()

    def pressed(self, act: str, on: str, seq: int) -> None:
        """A button of the picture was pressed, while that event was the last that was shown."""
        self.notice = f"This picture has no button to {act} {on}."

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
        return self.of_choices(film, 0)

    def film_message(self, film: Film) -> Message:
        """A film, the legend and the texts."""
        legend = self.legend()
        row = film.number(legend) if legend else -1
        return {"kind": "whole", "legend": row, "texts": self.texts(), **film.whole()}

    def of_choices(self, film: Film, chosen: int, slider: str = "") -> Message:
        """A film of no run: its beats are what can be chosen, and it opens at the chosen one.

        The browser has them all, and reports with `turned_to` which one it shows.  slider: what its
        slider goes along; none without.
        """
        first, last = film.beats[chosen].at, film.beats[-1].at
        nothing: Message = {"knots": [], "signs": [], "skips": [], "number": 0, "live": False}
        where = {"run": self._name, "end": last, "opening": first, "reports": True}
        nothing["slider"] = slider
        return {**nothing, **where, **self.film_message(film)}

    def turned_to(self, number: int) -> None:
        """The browser shows the beat whose `seq` that is, of a film `of_choices`."""

    def received(self, _view: object, message: Message, _buffers: object) -> None:
        """A message of the browser.  It may come in any thread, and while a cell runs."""
        self.answer(message)

    def answer(self, message: Message) -> None:
        """Do what the browser asks for; what the view does not know is refused in its notice."""
        self.notice = ""
        match message:
            case {"do": "resync"}:
                self.send(self.whole())
            case {"do": "shown", "seq": number}:
                self.turned_to(number)
            case {"set": name, "value": value} if name in {each["name"] for each in self.choices()}:
                self.choose(name, value, message.get("seq", -1))
            case {"do": act, "on": on}:
                self.pressed(act, on, message.get("seq", -1))
            case _:
                self.notice = f"This picture does not know the message {message} of its page."
