"""A run that is played by hand, as a scene: remarks, the cluster, and the messages in flight."""

from collections.abc import Callable, Mapping, Sequence

from labkit.system.trace.events import Event
from labkit.views.widgets.cluster.picture import GUTTER, WIDTH, ClusterPicture
from labkit.views.widgets.play.cards import Column, Message, cards, column_of
from labkit.views.widgets.scene import Mark, PartCache, group, path, picture, size_of, text
from labkit.views.widgets.text_metrics import lines_of

LINE, MARGIN = 19, 10
FEWEST_LINES = 5
"""Space above the cluster, so that what is below stays in place when a promise breaks."""
_ASIDE = "others"


class PlayPicture:
    """cluster: the picture of the cluster.
    remarks: lines above the cluster, each with its colour.
    messages, cuts: the messages in flight, and the move that cuts the power of each bookie.
    offers: returns whether the player may make a move.
    """

    def __init__(
        self,
        cluster: ClusterPicture,
        bookies: Sequence[str],
        remarks: Sequence[tuple[str, str]],
        messages: Sequence[Message],
        cuts: Mapping[str, str],
        offers: Callable[[str], bool],
    ) -> None:
        self.cluster = cluster
        self._cache = PartCache()
        self._top, self._remarks = _lines(remarks)
        self._cards, self._height = _columns(
            bookies, cluster.grid.layout.pitch, messages, cuts, offers
        )

    @property
    def explained_until(self) -> float | None:
        return self.cluster.explained_until

    def hide_explanation(self) -> None:
        self.cluster.hide_explanation()

    def take(self, event: Event) -> None:
        self.cluster.take(event)

    def scene(self) -> Mark:
        cluster = self.cluster.scene()
        width, height = size_of(cluster)
        below = self._top + height + 8
        return picture(
            width,
            below + self._height,
            str(cluster.attributes["aria-label"]),
            self._remarks,
            self._cache.part("cluster", _cluster, self._top, *cluster.children),
            self._cache.part("below", _below, below, width, self._cards),
        )


def _cluster(y: float, *parts: Mark) -> Mark:
    return group("cluster", *parts, y=y)


def _below(y: float, width: float, marks: Mark) -> Mark:
    line = path("line", f"M0 0H{width:g}", stroke="line")
    return group("below", line, marks, y=y)


def _lines(remarks: Sequence[tuple[str, str]]) -> tuple[float, Mark]:
    parts, y = list[Mark](), float(MARGIN)
    for words, colour in remarks:
        for line in lines_of(words, WIDTH - 2 * MARGIN, 13, bold=True):
            parts.append(text(f"{y:g}", MARGIN, y + 13, line, size=13, bold=True, fill=colour))
            y += LINE
    return max(y, MARGIN + FEWEST_LINES * LINE) + 2, group("remarks", *parts)


def _columns(
    bookies: Sequence[str],
    pitch: float,
    messages: Sequence[Message],
    cuts: Mapping[str, str],
    offers: Callable[[str], bool],
) -> tuple[Mark, float]:
    places = [Column(name, GUTTER + pitch * at, pitch - 6) for at, name in enumerate(bookies)]
    right = GUTTER + pitch * len(bookies)
    if WIDTH - right > 2 * GUTTER:  # Messages of no bookie are on the right if there is room.
        places.append(Column("", right + 10, WIDTH - right - 20))
    else:
        places.append(Column("", 4, GUTTER - 12))
    parts, lowest = list[Mark](), 0.0
    for place in places:
        own = [each for each in messages if column_of(each, bookies) == place.bookie]
        marks, height = cards(place, own, offers, cuts.get(place.bookie, ""))
        parts.append(group(place.bookie or _ASIDE, marks, y=30))
        lowest = max(lowest, height)
    words = "In flight. Click the message that arrives next:" if messages else "Nothing in flight"
    return group("flight", text("title", MARGIN, 20, words, fill="faint"), *parts), lowest + 40
