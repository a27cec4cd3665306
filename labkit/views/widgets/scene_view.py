"""The base of views that are drawn as scenes: the picture, the choices, and the clicks.

The browser does not know the views: it draws the film that it gets, offers the choices, and reports
clicks.  `PlayingView` is the base of views of a run.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any
from uuid import uuid4

import traitlets

from labkit.views.widgets.bundle import bundle
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.palette import LIVE_STYLE
from labkit.views.widgets.scene import Mark, still
from labkit.views.widgets.view import View

_BROWSER = files("labkit.views.widgets") / "browser"
MODULE = bundle(_BROWSER, "view")
STYLE = LIVE_STYLE + (_BROWSER / "view.css").read_text(encoding="utf-8")

Message = dict[str, Any]


class SceneView(View):
    """The base of all views.  A view that stands still defines `scene`, and calls `redraw`."""

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
        """The picture at the moment at which the view opens."""
        raise NotImplementedError

    def legend(self) -> Mark | None:
        """The legend of the signs."""
        return None

    def texts(self) -> list[tuple[str, str]]:
        """Texts that fold away below the picture: the title and the lines of each."""
        return []

    def choices(self) -> list[Message]:
        """The choices, for `browser/controls.js`."""
        return []

    def chosen(self, name: str, value: Any) -> None:
        """Called after a choice; `redraw` follows."""

    def choose(self, name: str, value: Any, seq: int) -> None:
        """Called after a choice; `seq` is that of the last event shown at that time."""
        self.chosen(name, value)
        self.redraw()

    def pressed(self, act: str, on: str, seq: int) -> None:
        """Called for a button of the picture; `seq` is that of the last event shown at that
        time.
        """
        self.notice = f"This picture has no button to {act} {on}."

    def redraw(self) -> None:
        """Send the view's present state to the browser."""
        with self.hold_sync():
            self.film, self.controls = self.whole(), self.choices()

    def svg(self) -> str:
        """The picture with its legend, as an SVG document."""
        legend = self.legend()
        scenes = (self.scene(), *([legend] if legend else []))
        return still(*scenes, words=repr(self))

    def whole(self) -> Message:
        """Everything that the browser needs."""
        film = Film()
        film.add(Beat(0, self.scene()))
        return self.of_choices(film, 0)

    def film_message(self, film: Film) -> Message:
        """A message with a film, the legend and the texts."""
        legend = self.legend()
        row = film.number(legend) if legend else -1
        return {"kind": "whole", "legend": row, "texts": self.texts(), **film.whole()}

    def of_choices(self, film: Film, chosen: int, slider: str = "") -> Message:
        """A film without a run: its beats are the things to choose from, and it opens at the chosen
        one.

        The browser has all of them, and reports the one that it shows by `turned_to`. slider: the
        slider's label; without it there is no slider.
        """
        first, last = film.beats[chosen].at, film.beats[-1].at
        nothing: Message = {"knots": [], "signs": [], "skips": [], "number": 0, "live": False}
        where = {"run": self._name, "end": last, "opening": first, "reports": True}
        nothing["slider"] = slider
        return {**nothing, **where, **self.film_message(film)}

    def turned_to(self, number: int) -> None:
        """Called when the browser shows the beat with this `seq`, in a film of `of_choices`."""

    def open_at(self, position: float) -> None:
        """Open there where the view is displayed again.  The page, which is there already, changed
        its film in the same way, so nothing is sent.
        """
        self.film["opening"] = position

    def received(self, _view: object, message: Message, _buffers: object) -> None:
        """Handle a message from the browser, which may arrive in any thread, and while a cell
        runs.
        """
        self.answer(message)

    def answer(self, message: Message) -> None:
        """Do what the message says; an unknown message is refused in the view's notice."""
        self.notice = ""
        with self.saying("This could not be done"):
            self._answer(message)

    @contextmanager
    def saying(self, what: str) -> Iterator[None]:
        """Say in the notice that an error ends what runs inside.  The error goes on from here to
        the kernel's log, which readers do not see.
        """
        try:
            yield
        except Exception as error:
            self.notice = f"{what}: {type(error).__name__}: {error}"
            raise

    def _answer(self, message: Message) -> None:
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
