"""The byte X-ray: pieces of files side by side, with the bytes of each field labelled with the name
of the field.

A field has the same colour in every piece, so the reader can follow an entry from the client's
bytes to the journal, the entry log and the index. If there are several moments, the view steps
through them. Bytes that a power cut would destroy are hatched.

Read the modules in this order: `rows` (how bytes are laid out), `pieces` (one piece), `picture`
(the scene), and then `XRay` below.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import Mark, still
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.run import DisplayedRun, RunSource, events_of
from labkit.views.widgets.scene_view import Message, SceneView
from labkit.views.widgets.xray.picture import Moments, XRayPicture, legend_of
from labkit.views.xray.byte_region import Piece

STEP_MS = 1500
"""The time in milliseconds for which each moment is shown while the view plays."""


class XRay(SceneView):
    """Shows pieces of files.

    source: one piece, several pieces, or several pieces for each moment (`{"before the sync":
        [...], ...}`).
    width: the number of bytes in a row; by default 8 for several pieces side by side, and 16 for
        one.
    run: the run in which the bytes were written. The other views of this run share their clock and
        selection with this view.
    upto: for each moment, the number of the run's events that happen before it. By default, the
        same pieces are shown for the whole run.

    Raises `ValueError` if there are several moments and `upto` does not contain one number for
    each, in increasing order.
    """

    question = "What does each byte mean?"

    def __init__(
        self,
        source: Piece | Sequence[Piece] | Moments,
        width: int | None = None,
        *,
        run: RunSource | None = None,
        upto: Sequence[int] = (),
    ) -> None:
        self._moments = _by_moment(source)
        most = max(len(pieces) for pieces in self._moments.values())
        self._run = None if run is None else DisplayedRun(events_of(run))
        self._positions = self._positions_of(upto)
        self._picture = XRayPicture(
            self._moments, width or (8 if most > 1 else 16), self._positions
        )
        self.reel = Film()
        for at, (label, position) in enumerate(zip(self._moments, self._positions, strict=True)):
            self.reel.add(Beat(position, self._picture.scene(at, repr(self)), label))
        super().__init__()

    def scene(self) -> Mark:
        return self.reel.beats[-1].scene

    def legend(self) -> Mark | None:
        return legend_of()

    def svg(self) -> str:
        return still(self._picture.all(repr(self)), words=repr(self), title=self.question)

    def whole(self) -> Message:
        """Return a message that lists all moments, each with its time if the run has a clock."""
        message = self.choices_message(self.reel, len(self.reel.beats) - 1) | {"reports": False}
        if self._run is not None:
            message |= {**self._run.clock_message(), "run": self._run.name}
        return message

    def _positions_of(self, upto: Sequence[int]) -> list[float]:
        count = len(self._moments)
        if self._run is None:
            return [STEP_MS * at for at in range(count)]
        if count == 1 and not upto:
            return [0.0]
        if len(upto) != count or any(a >= b for a, b in pairwise(upto)):
            raise ValueError(f"upto must have {count} increasing numbers, one per moment")
        events = self._run.events
        earlier = [[event for event in events if event.seq < most] for most in upto]
        return [round(self._run.at(some[-1].seq), 1) if some else 0.0 for some in earlier]

    def __repr__(self) -> str:
        moments = [
            (f"{label}: " if label else "") + ", ".join(_words(piece) for piece in pieces)
            for label, pieces in self._moments.items()
        ]
        return "Byte X-ray: " + "; ".join(moments)


def _by_moment(source: Piece | Sequence[Piece] | Moments) -> dict[str, Sequence[Piece]]:
    if isinstance(source, Piece):
        return {"": [source]}
    return dict(source) if isinstance(source, Mapping) else {"": source}


def _words(piece: Piece) -> str:
    size = f"{counted(len(piece.data), 'byte')} " if piece.data else ""
    return f"{piece.title} {size}{piece.words}".rstrip()
