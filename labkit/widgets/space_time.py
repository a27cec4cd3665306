"""The space-time diagram: a lane for each node, time downwards, messages as arrows from lane to
lane, drawn only from a trace.

What happened on a node at one moment is one dot.  Messages that nobody answered end in a cross;
where a node was down, paused or cut off its lane is broken.  An entry can be followed: what led to
its events stands out.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import traitlets

from labkit.trace.events import Event
from labkit.trace.sentence import SENTENCES
from labkit.widgets.space_time_layout import Choice, summary
from labkit.widgets.space_time_model import diagram_of
from labkit.widgets.space_time_svg import LEGEND, space_time_svg
from labkit.widgets.view import View, joined

FEW_ENTRIES = 8
"""So many entries are shown unless others are chosen."""


class HasEvents(Protocol):
    """A trace: a log, or a simulated run."""

    @property
    def events(self) -> Sequence[Event]:
        """In the order of their `seq`."""


class BrokenPromise(Protocol):
    """What the view needs of a verdict of `labkit.check`."""

    @property
    def name(self) -> str:
        """Of the promise."""

    @property
    def reason(self) -> str:
        """One sentence: how it broke."""

    @property
    def seq(self) -> int:
        """The event at which it broke, or -1."""


class SpaceTime(View):
    """Shows who told whom what, and when.

    source: a trace, or its events.
    ledger: by default the newest.
    entries: the first and the last to show; by default all, but no more than `FEW_ENTRIES`, and
    those around a broken promise.
    window_ms: only what happened in this time of the run.
    follow: the entry whose chain of causes stands out.
    broken: a promise that broke; its event is marked.
    at: the `seq` of the event at which the view stands at first; by default the last.
    lanes: nodes from left to right; by default who took part, metadata last.
    epilogue: show also what comes after everything was mended.  What broke only there is shown.
    """

    _esm = joined(
        "elements.js",
        "events.js",
        "player.js",
        "space_time_words.js",
        "space_time_draw.js",
        "space_time.js",
    )
    _css = joined("view.css", "space_time.css")

    diagram = traitlets.Dict().tag(sync=True)
    entries: traitlets.List[int] = traitlets.List(traitlets.Int()).tag(sync=True)
    window_ms: traitlets.List[float] = traitlets.List(traitlets.Float()).tag(sync=True)
    follow = traitlets.Int(-1).tag(sync=True)
    spacing = traitlets.Enum(("order", "time"), "order").tag(sync=True)
    upto = traitlets.Int().tag(sync=True)
    broken = traitlets.Dict().tag(sync=True)
    words = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        source: HasEvents | Sequence[Event],
        *,
        ledger: int | None = None,
        entries: tuple[int, int] | None = None,
        window_ms: tuple[float, float] | None = None,
        follow: int | None = None,
        broken: BrokenPromise | None = None,
        at: int | None = None,
        lanes: Sequence[str] | None = None,
        epilogue: bool = False,
    ) -> None:
        events = source if isinstance(source, Sequence) else source.events
        events = _before_epilogue(events, epilogue, -1 if broken is None else broken.seq)
        self._diagram = diagram_of(events, ledger, lanes)
        shown = self._diagram.events
        last_ms = shown[-1].time_us / 1000 if shown else 0.0
        super().__init__(
            diagram=self._diagram.as_dict(),
            entries=list(entries or _few(shown, broken)),
            window_ms=list(window_ms or (0.0, last_ms)),
            follow=-1 if follow is None else follow,
            upto=len(shown) if at is None else sum(event.seq <= at for event in shown),
            broken=_as_dict(broken),
            words={"sentences": SENTENCES, "legend": LEGEND},
        )

    def svg(self) -> str:
        """The moment, with what was chosen, as an SVG document."""
        return space_time_svg(self._diagram, self._choice(), self.broken)

    def __repr__(self) -> str:
        words = summary(self._diagram, self._choice())
        return f"{words}; broken: {self.broken['name']}" if self.broken else words

    def _choice(self) -> Choice:
        first, last = self.entries
        begin, end = self.window_ms
        return Choice((first, last), (begin, end), self.upto, self.follow, self.spacing)


def _before_epilogue(events: Sequence[Event], epilogue: bool, broken_at: int) -> Sequence[Event]:
    start = next((i for i, event in enumerate(events) if event.kind == "epilogue.started"), None)
    if epilogue or start is None or broken_at >= events[start].seq:
        return events
    return events[:start]


def _few(events: Sequence[Event], broken: BrokenPromise | None) -> tuple[int, int]:
    """The first entries, or those up to the one of the broken promise."""
    last = max((event.entry for event in events), default=0)
    if last < FEW_ENTRIES:
        return 0, max(last, 0)
    at = next((e.entry for e in events if broken is not None and e.seq == broken.seq), 0)
    first = max(0, at - FEW_ENTRIES // 2)
    return first, min(last, first + FEW_ENTRIES - 1)


def _as_dict(broken: BrokenPromise | None) -> dict[str, Any]:
    if broken is None:
        return {}
    return {"name": broken.name, "reason": broken.reason, "seq": broken.seq}
