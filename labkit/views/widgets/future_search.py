"""When did a broken promise become inevitable? Tries other futures of a run, moment by moment.

The page that shows the view asks for one moment after another, so the reader can do something else
or stop at any time. This also works where Python runs in a worker of the page.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from labkit.views.widgets.run import DisplayedRun, TraceLike

QUESTION = "When did it become inevitable?"


class LossCurve(Protocol):
    """The share of a run's other futures in which a promise of the run is also broken."""

    @property
    def points(self) -> Sequence[tuple[int, float]]:
        """The share (0 to 1) at some moments (µs of the run), in time order."""

    @property
    def seq(self) -> int:
        """The event at which most futures were lost, or -1 if none stands out."""

    @property
    def change(self) -> str:
        """How the share changes at that event."""

    @property
    def words(self) -> str:
        """A sentence about that event and the change."""

    @property
    def remaining(self) -> int:
        """An estimate of how many moments are still to be tried."""


@runtime_checkable
class Foreseeable(TraceLike, Protocol):
    def loss_curves(self, promise: str) -> Iterator[LossCurve]:
        """Yield the curve of a broken promise, with one more moment each time."""


class FutureSearch:
    """The search in one run.

    curve: what is known so far, or None.
    is_running: whether there are more moments to try, and the reader has not stopped the search.
    """

    def __init__(self, run: Foreseeable, promise: str) -> None:
        self._curves = run.loss_curves(promise)
        self.curve: LossCurve | None = None
        self.is_running = True

    @property
    def tried(self) -> int:
        return len(self.curve.points) if self.curve else 0

    def try_moment(self) -> LossCurve:
        """Try another moment (the first call tries two), and return what is known now."""
        self.curve = curve = next(self._curves)
        self.is_running = curve.remaining > 0
        return curve

    def finish(self) -> None:
        while self.is_running:
            self.try_moment()

    def message(self, run: DisplayedRun) -> dict[str, Any]:
        """Return the curve in the form that `browser/bar.js` expects."""
        points = []
        for time_us, share in self.curve.points if self.curve else ():
            seq = next((each.seq for each in reversed(run.events) if each.time_us <= time_us), -1)
            points.append([round(run.at(seq) if seq >= 0 else 0, 1), share])
        remaining = self.curve.remaining if self.curve else 1
        return {"points": points, "searches": self.is_running, "remaining": remaining}
