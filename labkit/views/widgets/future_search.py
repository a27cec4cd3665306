"""Finds out when a broken promise became inevitable, by trying other futures of the run from
several moments.

The page asks for one moment at a time, so the reader can stop the search or do something else in
between. This also works where Python runs in a worker of the page.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

from labkit.views.widgets.run import DisplayedRun, TraceLike

QUESTION = "When did it become inevitable?"


class LossCurve(Protocol):
    """The share of a run's other futures that also break a promise that the run broke."""

    @property
    def points(self) -> Sequence[tuple[int, float]]:
        """Pairs of an event's `seq` (-1: before the first event) and the share after that event (0
        to 1), in order of time.
        """

    @property
    def seq(self) -> int:
        """The event at which most futures were lost, or -1 if none stands out."""

    @property
    def words(self) -> str:
        """A sentence that describes the event and how it changes the run."""

    @property
    def remaining(self) -> int:
        """The estimated number of moments still to be tried."""


class HasCurves(Protocol):
    def loss_curves(self, promise: str) -> Iterator[LossCurve]:
        """Yield the curve of a broken promise repeatedly, with one more moment each time."""


@runtime_checkable
class Foreseeable(TraceLike, HasCurves, Protocol):
    """A run whose other futures can be tried."""


class FutureSearch:
    """A search in one run.

    curve: the result so far, or None.
    is_running: whether there are more moments to try, and the reader has not stopped the search.
    """

    def __init__(self, run: HasCurves, promise: str) -> None:
        self._curves = run.loss_curves(promise)
        self.curve: LossCurve | None = None
        self.is_running = True

    @property
    def tried(self) -> int:
        return len(self.curve.points) if self.curve else 0

    def try_moment(self) -> LossCurve:
        """Try another moment (the first call tries two), and return the result so far."""
        self.curve = curve = next(self._curves)
        self.is_running = curve.remaining > 0
        return curve

    def finish(self) -> None:
        while self.is_running:
            self.try_moment()

    def message(self, run: DisplayedRun) -> dict[str, Any]:
        """Return the curve in the form that `browser/bar.js` expects."""
        points = [
            [round(run.at(seq) if seq >= 0 else 0, 1), share]
            for seq, share in (self.curve.points if self.curve else ())
        ]
        remaining = self.curve.remaining if self.curve else 1
        return {"points": points, "searches": self.is_running, "remaining": remaining}
