"""The base of views that play: a picture, its run, and the faults that a reader can cause.

A view has a `Picture`, which takes the events of a run one by one and returns the scene of the
moment. `PlayingView` makes a film of the scenes, extends it while a cluster runs, and carries out
clicks: on a running cluster by the cluster's methods, on a simulated run by a fork, that is, by
running the same scenario again with one more fault.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from labkit.system.model.errors import LabkitError
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from labkit.system.trace.sentence import describe
from labkit.views.widgets.animated import animated
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.follower import COMMANDS, Follower, LiveCluster
from labkit.views.widgets.run import DisplayedRun, RunSource, TraceLike, beats_of, events_of
from labkit.views.widgets.scene import Mark, still
from labkit.views.widgets.scene_view import Message, SceneView

LIVE_BEATS = 300
"""The largest number of beats in a message of a running cluster: a burst is shown in larger
steps.
"""
MOST_BEATS = 20_000
"""The number of beats to keep of a running cluster; at 1.5 times as many, the oldest are
forgotten.
"""


class Picture(Protocol):
    """A fold of events, and a function from its state to a scene.

    hush_at: the position on the clock at which words about a first event end; None: no words.
    """

    @property
    def hush_at(self) -> float | None:
        """See above."""

    def hush(self) -> None:
        """Those words end."""

    def take(self, event: Event) -> None:
        """Take the next event."""

    def scene(self) -> Mark:
        """The scene of the moment.  Parts that did not change are the same objects as before."""


@runtime_checkable
class Forkable(TraceLike, Protocol):
    """A run that can be repeated with one more fault."""

    def fork(self, seq: int, fault: str, node: str) -> "Forkable":
        """The same run, but after the event the node is killed (`kill`), paused (`pause`), or cut
        off, so that nothing reaches or leaves it (`cut`).  Raises `LabkitError` if that is
        impossible.
        """


FAULTS = ("kill", "pause", "cut")


class PlayingView(SceneView):
    """The base of all views of a run.

    source: a log, a simulated run or bare events for a replay; a cluster to watch and to act on,
    which needs a running event loop (every notebook has one).
    """

    follower: Follower | None = None
    """Of a running cluster, until the view is closed."""

    def __init__(self, source: RunSource | LiveCluster) -> None:
        self.forked_from: list[Forkable] = []
        """The runs of which the one shown is a fork, the first one first."""
        self._number = 0
        self.current_picture: Any = None
        """The picture at the end of the film."""
        self.is_live = hasattr(source, "trace")
        self.open_run(source)
        super().__init__()
        if self.is_live:
            self.follower = Follower(self, self._source)

    # What each view defines

    def picture(self, run: DisplayedRun) -> Picture:
        """A fresh picture of the run, before its first event."""
        raise NotImplementedError

    def choices(self) -> list[Message]:
        """The choices below the picture: after a fork, to go back."""
        return [_BACK] if self.forked_from else []

    def opening(self) -> float:
        """The position at which a replay opens, and to which it plays.

        A reader can go on from there to the epilogue of a simulated run, which looks everything up.
        """
        epilogue = next((e for e in self.run.events if e.kind == "epilogue.started"), None)
        # Just before the epilogue, so that its first event does not belong to the picture.
        return self.run.pace.end if epilogue is None else self.run.at(epilogue.seq) - 1

    def moment(self) -> float:
        """The position at which a page goes on that showed another run until now."""
        if self._moment is None or self._moment >= len(self.run.events):
            return self.opening()
        return self.run.at(self.run.events[self._moment].seq)

    def beats(self, events: Sequence[Event]) -> Iterable[list[Event]]:
        """The events in groups that are shown at once."""
        return beats_of(events)

    def words(self, beat: Sequence[Event]) -> str:
        """The words about a beat's events."""
        many = f" ({len(beat)} events)" if len(beat) > 1 else ""
        return describe(beat[-1]) + many

    def sign(self, event: Event) -> tuple[str, str] | None:
        """The sign on the bar, and its colour, for an event that matters only in this view."""
        return None

    def acts(self) -> tuple[str, ...]:
        """The faults that the reader can cause at a bookie of this run."""
        return COMMANDS if self.is_live else FAULTS if isinstance(self._source, Forkable) else ()

    def bookies(self) -> Sequence[str]:
        """Bookies that exist whether or not an event names them."""
        return self._source.bookie_names if self.is_live else ()

    # Stills

    def scene(self) -> Mark:
        """The last scene that is not after the opening."""
        opening = self.opening()
        beats = self.reel.beats
        return next(
            beat for beat in reversed(beats) if beat.at <= opening or beat is beats[0]
        ).scene

    def svg(self) -> str:
        return self.still(self.scene())

    def still(self, scene: Mark) -> str:
        """A scene at the opening, with the legend, as an SVG document."""
        legend = self.legend()
        scenes = (scene, *([legend] if legend else []))
        return still(*scenes, words=repr(self), position=self.opening())

    def moving_svg(self) -> str:
        """The run up to its opening as an SVG document that plays by itself, without a script."""
        return animated(self.reel.beats, self.opening(), repr(self))

    # The film

    def redraw(self) -> None:
        self._number += self.is_live  # a page takes only a later film of a running cluster
        self._shoot_all()
        super().redraw()

    def open_run(self, source: Any) -> None:
        """Show another run from its beginning."""
        self._source = source
        self._moment: int | None = None
        if self.is_live:
            self._trace: TraceLog = self._source.trace
            self.waiting: list[Event] = []
            """What happened since the last message to the browser."""
            self.run = DisplayedRun(list(self._trace.events), name=str(uuid4()))
        else:
            self.run = DisplayedRun(events_of(self._source))
        self._shoot_all()

    def open_beside(self, source: Any) -> None:
        """Show another run of the scenario; pages go on where it begins to differ."""
        before = self.run.events
        self.open_run(source)
        self.go_on_from(before)
        self.redraw()

    def go_on_from(self, before: Sequence[Event]) -> None:
        """Pages that showed the run of those events go on where this one begins to differ."""
        same = takewhile(
            lambda pair: pair[0] == pair[1], zip(before, self.run.events, strict=False)
        )
        self._moment = sum(1 for _ in same)

    def _shoot_all(self) -> None:
        self.reel = Film()
        self._signs: list[list[Any]] = []
        self.current_picture = self.picture(self.run)
        self.reel.add(Beat(0, self.current_picture.scene(), "Nothing has happened yet."))
        self._shoot(self.run.events)

    def _shoot(self, events: Sequence[Event]) -> None:
        beats = list(self.beats(events))
        together = max(-(-len(beats) // LIVE_BEATS), 1) if self.is_live else 1
        for first in range(0, len(beats), together):
            beat = [event for each in beats[first : first + together] for event in each]
            last = beat[-1]
            at = self.run.at(last.seq)
            self._hush(at)
            for event in beat:
                self.current_picture.take(event)
                self._put_sign(event, at)
            self.reel.add(Beat(at, self.current_picture.scene(), self.words(beat), last.seq))
        self._hush(self.run.pace.end)

    def _put_sign(self, event: Event, at: float) -> None:
        sign = self.sign(event)
        if sign:
            self._signs.append([at, sign[0], describe(event), sign[1]])

    def _with_signs(self, clock: Message) -> Message:
        """The clock's message with the signs of this view."""
        return clock | {"signs": sorted(clock["signs"] + self._signs, key=lambda sign: sign[0])}

    def _hush(self, at: float) -> None:
        """End the words that are over at the position."""
        until = self.current_picture.hush_at
        if until is not None and until < at:
            self.current_picture.hush()
            last = self.reel.beats[-1]
            self.reel.add(last._replace(at=max(until, last.at), scene=self.current_picture.scene()))

    def whole(self) -> Message:
        return {
            "run": self.run.name,
            "number": self._number,
            "live": self.is_live,
            "opening": round(self.opening(), 1),
            "moment": round(self.moment(), 1),
            **self._with_signs(self.run.clock_message()),
            **self.film_message(self.reel),
        }

    # Clicks

    def received(self, view: object, message: Message, buffers: object) -> None:
        """Handle a click, which may arrive in any thread, and while a cell runs."""
        if self.follower:
            self.follower.receive(message)
        else:
            super().received(view, message, buffers)

    def choose(self, name: str, value: Any, seq: int) -> None:
        """Handle a choice, or go back to the run before its fork."""
        if name == "back":
            self.open_beside(self.forked_from.pop())
        else:
            super().choose(name, value, seq)

    def pressed(self, act: str, on: str, seq: int) -> None:
        """Handle a fault: show the same run with it."""
        source = self._source
        if act not in FAULTS or not isinstance(source, Forkable):
            super().pressed(act, on, seq)
            return
        try:
            other = source.fork(seq, act, on)
        except LabkitError as error:
            self.notice = f"Could not {act} {on} here: {error}"
            return
        self.forked_from.append(source)
        self.open_beside(other)

    # A running cluster

    def close(self) -> None:
        follower, self.follower = self.follower, None
        if follower:
            follower.close()
        super().close()

    def keep_film(self) -> None:
        if self.film["number"] != self._number:
            self.film = self.whole()

    def send_more(self) -> None:
        """Send the browser the beats of the events that came since the last call."""
        fresh, self.waiting[:] = list(self.waiting), []
        self.run.take(fresh)
        self._shoot(fresh)
        self._number += 1
        if len(self.reel.beats) > MOST_BEATS * 3 // 2:
            self.reel.keep_last(MOST_BEATS)
            self.send(self.whole())
        else:
            more = {"kind": "more", "number": self._number}
            clock = self._with_signs(self.run.clock_growth())
            self.send(more | clock | self.reel.growth())
        if self.choices() != self.controls:
            self.controls = self.choices()


_BACK: Message = {"name": "back", "kind": "button", "label": "Back to the run without this fault"}
