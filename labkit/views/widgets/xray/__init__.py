"""The byte X-ray: pieces of files side by side, with each byte under the name of its field.

One field has one colour in every piece, so the eye follows an entry from the client's bytes to the
journal, the entry log and the index.  Given several moments, the view steps through them; bytes
that a power cut would take are hatched.

Read in this order: `rows` (how bytes are laid out), `pieces` (one piece), `picture` (the scene),
and `XRay` below.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from uuid import uuid4

from labkit.system.model.byte_region import Piece
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.run import DisplayedRun, RunSource, events_of
from labkit.views.widgets.scene import Mark, still
from labkit.views.widgets.scene_view import Message, SceneView
from labkit.views.widgets.xray.picture import Moments, XRayPicture, legend

STEP_MS = 1500
"""Time in ms that each moment is shown when the view plays."""


class XRay(SceneView):
    """Shows pieces of bytes.

    source: one piece, several, or several by moment (`{"before the sync": [...], ...}`).
    width: bytes in a row; by default 8 for several pieces side by side, 16 for one. run: the run of
    the bytes; its other views share time and selection with this one. upto: for each moment the
    number of the run's events before it.  By default the pieces are shown through the whole run;
    several moments need `upto`.  Raises `ValueError` without it, and for numbers that do not grow.
    """

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
        self._clock_name = self._run.name if self._run else str(uuid4())
        self._positions = self._positions_of(upto)
        self._picture = XRayPicture(
            self._moments, width or (8 if most > 1 else 16), self._positions
        )
        self.reel = Film()
        for at, (label, position) in enumerate(zip(self._moments, self._positions, strict=True)):
            self.reel.add(Beat(position, self._picture.scene(at, repr(self)), label))
        super().__init__()

    def scene(self) -> Mark:
        """The last moment."""
        return self.reel.beats[-1].scene

    def legend(self) -> Mark:
        """The legend of the bytes."""
        return legend()

    def svg(self) -> str:
        """All moments, one below the other."""
        return still(self._picture.all(repr(self)), words=repr(self))

    def whole(self) -> Message:
        """The moments, on the clock of the run if there is one."""
        last = self._positions[-1]
        clock: Message = {"knots": [], "signs": [], "skips": [], "end": last, "slider": ""}
        if self._run is not None:
            clock = self._run.clock_message()
        film = self.film_message(self.reel)
        return {
            **clock,
            **film,
            "run": self._clock_name,
            "number": 0,
            "live": False,
            "opening": last,
        }

    def _positions_of(self, upto: Sequence[int]) -> list[float]:
        count = len(self._moments)
        if self._run is None:
            return [STEP_MS * at for at in range(count)]
        if count == 1 and not upto:
            return [0.0]
        if len(upto) != count or any(a >= b for a, b in pairwise(upto)):
            raise ValueError(f"upto must have {count} numbers that grow, one for each moment")
        events = self._run.events
        seen = [[event for event in events if event.seq < most] for most in upto]
        return [round(self._run.at(some[-1].seq), 1) if some else 0.0 for some in seen]

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
    size = f"{len(piece.data)} bytes " if piece.data else ""
    return f"{piece.title} {size}{piece.words}".rstrip()
