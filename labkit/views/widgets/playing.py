"""The base class of views that play a run, in which the reader can inject faults.

A `Picture` processes the events of a run one by one and returns the current scene. `PlayingView`
turns these scenes into a film, and extends it while a cluster is running. A click on a button calls
a method of the running cluster, or forks a simulated run: the scenario runs again with that fault.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable
from uuid import uuid4

from labkit.system.check import Verdict, broken, check_all
from labkit.system.model.errors import LabkitError
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from labkit.system.trace.sentence import describe
from labkit.views.widgets.acts import NO_ACTS, Acts
from labkit.views.widgets.animated import animated
from labkit.views.widgets.beat_words import rank, words_of
from labkit.views.widgets.captions import Explainer, hide_explanations
from labkit.views.widgets.controls import Control, button
from labkit.views.widgets.display_clock import READ_MS
from labkit.views.widgets.drawing.scene import Mark, still
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.follower import COMMANDS, Follower, LiveCluster
from labkit.views.widgets.future_search import (
    QUESTION,
    Foreseeable,
    FutureSearch,
    HasCurves,
    LossCurve,
)
from labkit.views.widgets.run import DisplayedRun, RunSource, TraceLike, beats_of, events_of
from labkit.views.widgets.scene_view import Message, SceneView
from labkit.views.widgets.verdict_words import failure_of

MAX_LIVE_BEATS = 300
"""The maximum number of beats in a message about a running cluster. If there are more events, each
beat shows several of them.
"""
MAX_BEATS = 20_000
"""The number of beats to keep for a running cluster. The oldest beats are discarded as soon as
there are more than 1.5 times as many.
"""


class Picture(Protocol):
    """Processes the events of a run one by one, and draws the resulting state as a scene."""

    @property
    def explainers(self) -> Sequence[Explainer]:
        """The parts of the picture that explain the first event of each kind."""

    def take(self, event: Event) -> None:
        """Apply the next event."""

    def scene(self) -> Mark:
        """Return the current scene. Parts that have not changed are the same objects as in the
        previous scene.
        """

    def legend(self) -> Mark | None:
        """Return the legend of the symbols that have been drawn so far."""


AnyPicture = TypeVar("AnyPicture", bound=Picture)


@runtime_checkable
class Forkable(TraceLike, Protocol):
    def fork(self, seq: int, fault: str, node: str) -> "Forkable":
        """Return the same run with a fault right after event `seq`: `kill` the node, `pause` it, or
        `cut` it off so that no message reaches or leaves it. Raises `LabkitError` if that is
        impossible.
        """


@runtime_checkable
class Linkable(TraceLike, Protocol):
    def link(self, view: str, selection: Mapping[str, Any]) -> str:
        """Return a link that opens the run in the view with this name, or ""."""


FAULTS = ("kill", "pause", "cut")


class Fork(NamedTuple):
    """A fault that the reader has injected, and the run without it."""

    source: Forkable
    run: DisplayedRun
    fault: str
    node: str


class PlayingView(SceneView):
    """Base class of all views of a run.

    source: a log, a simulated run or events to replay, or a running cluster to follow. To follow a
        cluster, an event loop must be running, as it is in every notebook.
    """

    follower: Follower | None = None
    """Follows a running cluster until the view is closed."""
    linked_as: ClassVar[str] = ""
    """The name of the view in links, or "" if no link opens it."""
    run: DisplayedRun
    _verdicts: Sequence[Verdict] | None = None
    """The broken promises of the displayed run, or None until they are first needed."""
    opens_at: int | None = None
    """The `seq` of the event at which a replay opens, or None for the default."""

    def __init__(self, source: RunSource | LiveCluster) -> None:
        self.forks: list[Fork] = []
        """The faults that the reader has injected into the displayed run, in order."""
        self._number = 0
        # The picture of the state after the last event of the film.
        self.current_picture: Any = None
        self.is_live = hasattr(source, "trace")
        self.open_run(source)
        super().__init__()
        if self.is_live:
            self.follower = Follower(self, self._source)

    # To be defined by each view

    def picture(self, run: DisplayedRun, acts: Acts) -> Picture:
        """Return a new picture of the run, before its first event."""
        raise NotImplementedError

    def choices(self) -> list[Control]:
        return self.search_control()

    def opening(self) -> float:
        """Return the position at which a replay is first shown, which is also where playback
        stops.
        """
        if self.opens_at is not None:
            past = [event.seq for event in self.run.events if event.seq <= self.opens_at]
            return self.run.at(past[-1]) if past else 0
        check_at = self.run.check_at
        return self.run.clock.end if check_at is None else check_at

    def verdict(self) -> str:
        """Return the result of a simulated run's epilogue: ✔ or ✘, and the broken promises."""
        failures = "; ".join(failure_of(each.name) for each in self.broken_promises())
        return f"✘ {failures}" if failures else "✔ no promise was broken"

    def broken_promises(self) -> Sequence[Verdict]:
        """Return the verdicts about the promises that the displayed run breaks."""
        if self._verdicts is None:
            source = self._source if isinstance(self._source, Foreseeable) else self.run.events
            self._verdicts = broken(check_all(source))
        return self._verdicts

    def moment(self) -> float:
        """Return the position at which a page continues after it has displayed another run. The
        final check is never played unless the reader asks for it.
        """
        if self._moment is None or self._moment >= len(self.run.events):
            return self.opening()
        at, check_at = self.run.at(self.run.events[self._moment].seq), self.run.check_at
        return at if check_at is None else min(at, check_at)

    def beats(self, events: Sequence[Event]) -> Iterable[list[Event]]:
        return beats_of(events)

    def words(self, beat: Sequence[Event]) -> str:
        return words_of(beat)

    def sentence(self, event: Event) -> str:
        """Describe an event that is marked on the bar."""
        return describe(event)

    def sign(self, event: Event) -> tuple[str, str] | None:
        """Return the glyph and colour that mark the event on the bar if it matters only in this
        view.
        """
        return None

    def selection(self) -> dict[str, Any]:
        """Return what the reader has selected, for a link to this view."""
        return {}

    def link(self) -> str:
        """Return the link to this run in this view, or "". The page adds the current moment."""
        if not self.linked_as or not isinstance(self._source, Linkable):
            return ""
        return self._source.link(self.linked_as, self.selection())

    def acts(self) -> Acts:
        if self.is_live:
            return Acts(COMMANDS)
        undo = (self.forks[-1].fault, self.forks[-1].node) if self.forks else ()
        return Acts(FAULTS if isinstance(self._source, Forkable) else (), *undo)

    def bookies(self) -> Sequence[str]:
        """Return the bookies that exist even if no event mentions them."""
        return self._source.bookie_names if self.is_live else ()

    # When a broken promise became inevitable

    search: FutureSearch | None = None
    """The search for that moment, once the reader has started it."""

    def foreseeable(self) -> tuple[HasCurves, str] | None:
        """Return the run and its first broken promise, or None if no promise is broken, or if other
        futures of the run cannot be tried.
        """
        if not isinstance(self._source, Foreseeable) or not self.broken_promises():
            return None
        return self._source, self.broken_promises()[0].name

    def search_control(self) -> list[Control]:
        """Return the button that starts or stops the search, if other futures can be tried."""
        if self.search and self.search.is_running:
            return [button("futures", "Stop trying futures")]
        if self.foreseeable() is None:
            return []
        return [button("futures", QUESTION)]

    def choose(self, name: str, value: Any, seq: int) -> None:
        if name != "futures":
            super().choose(name, value, seq)
            return
        if self.search and self.search.is_running:
            self.search.is_running = False
        elif found := self.foreseeable():
            self.search = FutureSearch(*found)
        self.show_search(self.search)

    def curve_words(self, curve: LossCurve) -> str:
        """Return a sentence about the event at which most futures were lost."""
        return curve.words

    def _try_moment(self, tried: str) -> None:
        """Try another moment. Each moment is tried only once, even if several pages ask for it."""
        search = self.search
        if search is None or not search.is_running or tried != str(search.tried):
            return
        curve = search.try_moment()
        if curve.remaining == 0:
            self.notice = self.curve_words(curve)
        self.show_search(search)

    def show_search(self, search: FutureSearch | None) -> None:
        """Show a search in the displayed run, which another view may have finished."""
        self.search = search
        self.update_page()

    def legend(self) -> Mark | None:
        """Return the legend of everything before the final check."""
        return self._legend_before_check or self.current_picture.legend()

    # Stills

    def scene(self) -> Mark:
        opening = self.opening()
        beats = self.reel.beats
        return next(
            beat for beat in reversed(beats) if beat.at <= opening or beat is beats[0]
        ).scene

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        # The still picture shows all that has happened before the cell that displays the view.
        if self.is_live and self.waiting:
            self.send_more()
        return super()._repr_mimebundle_(**options)

    def svg(self) -> str:
        return self.still(self.still_picture())

    def still_picture(self) -> Any:
        """Return the picture at the opening position, without buttons or space for them."""
        return self.at_opening(self.picture(self.run, NO_ACTS))

    def at_opening(self, picture: AnyPicture) -> AnyPicture:
        """Apply the events up to the opening position to a new picture, and return the picture."""
        opening = self.opening()
        past = takewhile(lambda event: self.run.at(event.seq) <= opening, self.run.events)
        for beat in self.beats(list(past)):
            for event in beat:
                picture.take(event)
        hide_explanations(picture.explainers, opening)
        return picture

    def still(self, picture: Any, *above: Mark) -> str:
        """Return an SVG document of the picture at the opening position, with its legend.

        above: scenes to draw above the picture.
        """
        return still(
            *above,
            picture.scene(),
            picture.legend(),
            words=repr(self),
            position=self.opening(),
            title=self.question,
            note="In Jupyter, run the cell to play this.",
        )

    def moving_svg(self) -> str:
        """Return an SVG animation, which needs no script, of the run up to the opening position."""
        return animated(self.reel.beats, self.opening(), repr(self))

    # The film

    def redraw(self) -> None:
        # A page ignores a recording of a running cluster unless its number is higher than that of
        # the last one.
        self._number += self.is_live
        self.record_run()
        super().redraw()

    def open_run(self, source: Any) -> None:
        self._source = source
        self._verdicts = None
        self.search = None
        self._moment: int | None = None
        if self.is_live:
            self._trace: TraceLog = self._source.trace
            self.waiting: list[Event] = []
            """Events since the last message to the browser."""
            self.run = DisplayedRun(list(self._trace.events), name=str(uuid4()))
        else:
            self.run = DisplayedRun(events_of(self._source), sentence=self.sentence)
        self.record_run()

    def fork(self, seq: int, fault: str, node: str) -> None:
        """Show the run again with a fault right after event `seq`. Raises `LabkitError` if that is
        impossible.
        """
        other = self._source.fork(seq, fault, node)
        self.forks.append(Fork(self._source, self.run, fault, node))
        self.switch_to(other)

    def undo(self) -> None:
        """Show the run without the latest fault."""
        self.switch_to(self.forks.pop().source)

    def switch_to(self, source: Any) -> None:
        """Show another run. Pages continue at the point where the new run diverges from the current
        one.
        """
        before = self.run.events
        self.open_run(source)
        self._moment = _common(before, self.run.events)
        self.update_page()

    def _old_future(self) -> Message | None:
        """Return the signs of the run without the latest fault, from the fault on."""
        if not self.forks:
            return None
        old = self.forks[-1].run
        clock = old.clock_message()
        first = min(_common(old.events, self.run.events), len(old.events) - 1)
        return {
            "start": round(self.moment(), 1),
            "at": round(old.clock.positions[first], 1),
            "end": clock["end"] if clock["check"] is None else clock["check"],
            "signs": clock["signs"],
        }

    def record_run(self) -> None:
        self.reel = Film()
        self._read_until = 0.0
        self._signs: list[list[Any]] = []
        self._legend_before_check: Mark | None = None
        check_at = self.run.check_at
        self._check_at = math.inf if check_at is None else check_at
        self.current_picture = self.picture(self.run, self.acts())
        self.reel.add(Beat(0, self.current_picture.scene(), "Nothing has happened yet."))
        self._record_beats(self.run.events)

    def _record_beats(self, events: Sequence[Event]) -> None:
        beats = list(self.beats(events))
        together = max(-(-len(beats) // MAX_LIVE_BEATS), 1) if self.is_live else 1
        for first in range(0, len(beats), together):
            beat = [event for each in beats[first : first + together] for event in each]
            last = beat[-1]
            at = self.run.at(last.seq)
            self._hide_explanation(at)
            if at > self._check_at and self._legend_before_check is None:
                self._legend_before_check = self.current_picture.legend()
            for event in beat:
                self.current_picture.take(event)
                if sign := self.sign(event):
                    self._signs.append([at, sign[0], self.sentence(event), sign[1]])
            words = self._live_words(beat, at) if self.is_live else self.words(beat)
            self.reel.add(Beat(at, self.current_picture.scene(), words, last.seq))
        self._hide_explanation(self.run.clock.end)

    def _live_words(self, beat: Sequence[Event], at: float) -> str:
        """Return the previous sentence if the beat consists only of background work, or if the
        previous sentence describes the reader's own action and has not been shown for long enough.
        """
        first = min(map(rank, beat))
        if first == 2 or (first == 1 and at < self._read_until):
            return self.reel.beats[-1].words
        self._read_until = at + READ_MS if first == 0 else at
        return self.words(beat)

    def _with_signs(self, clock: Message) -> Message:
        return clock | {"signs": sorted(clock["signs"] + self._signs, key=lambda sign: sign[0])}

    def _hide_explanation(self, at: float) -> None:
        until = hide_explanations(self.current_picture.explainers, at)
        if until is not None:
            last = self.reel.beats[-1]
            self.reel.add(last._replace(at=max(until, last.at), scene=self.current_picture.scene()))

    def whole(self) -> Message:
        clock = self._with_signs(self.run.clock_message())
        if self.search:
            clock["curve"] = self.search.message(self.run)
            curve = self.search.curve
            if curve and curve.seq >= 0:  # Mark the event on the bar.
                words = self.curve_words(curve).removesuffix(".")
                sign = [self.run.at(curve.seq), "✘", words, "lost"]
                clock["signs"] = sorted([*clock["signs"], sign], key=lambda each: each[0])
        return {
            "run": self.run.name,
            "number": self._number,
            "live": self.is_live,
            "opening": round(self.opening(), 1),
            "moment": round(self.moment(), 1),
            "link": self.link(),
            **clock,
            "old": self._old_future(),
            "verdict": "" if self.run.check_at is None else self.verdict(),
            "checkLegend": self.reel.number(self.current_picture.legend()),
            **self.film_message(self.reel),
        }

    # Clicks

    def received(self, view: object, message: Message, buffers: object) -> None:
        if self.follower:
            self.follower.receive(message)
        else:
            super().received(view, message, buffers)

    def pressed(self, act: str, on: str, seq: int) -> None:
        if act == "try":
            self._try_moment(on)
        elif act == "undo" and self.forks:
            self.undo()
        elif act in FAULTS and isinstance(self._source, Forkable):
            try:
                self.fork(seq, act, on)
            except LabkitError as error:
                self.notice = f"Could not {act} {on} here: {error}"
        else:
            super().pressed(act, on, seq)

    # Running clusters

    def close(self) -> None:
        follower, self.follower = self.follower, None
        if follower:
            follower.close()
        super().close()

    def keep_film(self) -> None:
        if self.film["number"] != self._number:
            self.film = self.whole()

    def send_more(self) -> None:
        fresh, self.waiting[:] = list(self.waiting), []
        self.run.take(fresh)
        self._record_beats(fresh)
        self._number += 1
        if len(self.reel.beats) > MAX_BEATS * 3 // 2:
            self.reel.keep_last(MAX_BEATS)
            self.send(self.whole())
        else:
            legend = self.reel.number(self.legend())
            more = {"kind": "more", "number": self._number, "legend": legend}
            clock = self._with_signs(self.run.clock_message(is_growth=True))
            self.send(more | clock | self.reel.growth())
        if self.choices() != self.controls:
            self.controls = self.choices()


def _common(one: Sequence[Event], other: Sequence[Event]) -> int:
    """Return the length of the runs' common prefix."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
