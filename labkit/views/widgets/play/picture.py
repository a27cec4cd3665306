"""A run that is played by hand, as a scene: the cluster, its readers, and messages in flight."""

from collections.abc import Callable, Mapping, Sequence

from labkit.system.check.facts import proves_absence
from labkit.system.trace.cluster_state import Ledger
from labkit.system.trace.events import Event
from labkit.views.widgets.cluster.grid import MOST_PITCH
from labkit.views.widgets.cluster.picture import GUTTER, WIDTH, ClusterPicture
from labkit.views.widgets.drawing.scene import (
    Mark,
    PartCache,
    group,
    path,
    picture,
    rect,
    size_of,
    text,
)
from labkit.views.widgets.drawing.text_metrics import fitted, lines_of
from labkit.views.widgets.late_syncs import DelayedSyncs
from labkit.views.widgets.play.cards import Column, Message, column_marks

LINE, MARGIN = 19, 10
NARROWEST = 120
"""If the bookies' columns are narrower than this, the cards are not below their bookies."""
LINE_HEIGHT, NOTHING_YET = 32, "has done nothing yet"
"""The height of a line about the metadata or a reader, and the text for a reader that has not
started.
"""
_READER_WORDS = {
    "recovery.started": "has begun to recover ledger {ledger}",
    "recovery.failed": "could not recover ledger {ledger}",
    "read.done": "has read {what} from {peer}",
    "read.failed": "did not get {what} from {peer}",
    "ledger.closed": "has closed ledger {ledger} {last}",
}
"""What a reader has done, by the kind of its last event."""


class PlayPicture:
    """Draws the cluster, the ledger's metadata, what each reader has done, and messages in flight.

    The sentence next to the picture explains each event. The picture contains no explanations,
    because they would cover part of it.

    cluster: the picture of the cluster.
    readers: the clients that do not write; a line describes what each of them has done.
    late_syncs: see `DelayedSyncs`.
    messages, cuts: the messages in flight, and the move that cuts the power of each bookie.
    heading: the line above the messages.
    offers: returns whether the player may make a move.
    """

    explainers = ()

    def __init__(
        self,
        cluster: ClusterPicture,
        bookies: Sequence[str],
        readers: Sequence[str],
        late_syncs: Mapping[int, int],
        messages: Sequence[Message],
        cuts: Mapping[str, str],
        heading: str,
        offers: Callable[[str], bool],
    ) -> None:
        self.cluster = cluster
        self._readers = dict.fromkeys(readers, NOTHING_YET)
        self._heard: dict[str, list[str]] = {name: [] for name in readers}
        """For each reader, the bookies that have reported their last entry; removed once enough of
        them have.
        """
        self._syncs = DelayedSyncs(late_syncs)
        self._cache = PartCache()
        columns, height = _columns(
            cluster.grid.layout.width, bookies, cluster.grid.layout.pitch, messages, cuts, offers
        )
        title = text("title", MARGIN, 20, heading, fill="faint")
        self._cards, self._height = group("flight", title, *columns, latest=True), height

    def take(self, event: Event) -> None:
        for each in self._syncs.due_with(event):
            self.cluster.take(each)
        self.cluster.grid.explainer.hide()
        heard = self._heard.get(event.node)
        if heard is not None and _tells_last_entry(event):
            heard.append(event.peer)
            words = f"has heard from {', '.join(heard)}, and needs more answers"
            self._readers[event.node] = words
        elif heard is not None and event.kind == "recovery.covered":
            self._readers[event.node] = f"has heard from {', '.join(heard)}, which is enough"
            del self._heard[event.node]
        elif event.node in self._readers and event.kind in _READER_WORDS:
            has_entry, entry = event.entry >= 0, f"entry {event.entry}"
            self._readers[event.node] = _READER_WORDS[event.kind].format(
                peer=event.peer,
                ledger=event.ledger,
                what=entry if has_entry else "the last entry",
                last=f"after {entry}" if has_entry else "without any entry",
            )

    def legend(self) -> Mark | None:
        return self.cluster.legend()

    def scene(self) -> Mark:
        cluster, grid = self.cluster.scene(), self.cluster.grid
        width, height = size_of(cluster)
        metadata = metadata_words(grid.shown(), grid.fold.ledgers.get(grid.shown(), Ledger()))
        lines = {"metadata": metadata}
        lines |= {f"reader {name}": words for name, words in self._readers.items()}
        below = height + LINE_HEIGHT * len(lines) + 8
        return picture(
            width,
            below + self._height,
            str(cluster.attributes["aria-label"]),
            *cluster.children,
            *(
                self._cache.part(name, _line, height + LINE_HEIGHT * at, name, words)
                for at, (name, words) in enumerate(lines.items())
            ),
            self._cache.group(
                "below", path("line", f"M0 0H{width:g}", stroke="line"), self._cards, y=below
            ),
        )


def _tells_last_entry(event: Event) -> bool:
    """Return whether a bookie tells a recovering reader its last entry, or that it has no entry."""
    is_answer = event.kind == "read.done" or (event.kind == "read.failed" and proves_absence(event))
    return event.kind == "fence.answered" or (is_answer and event.entry < 0)


def metadata_words(ledger_id: int, ledger: Ledger) -> str:
    """Describe a ledger's metadata: its state, its ensembles and its last entry."""
    if not ledger.segments:
        return "no ledger yet"
    state = "is open"
    if ledger.closed:
        last = ledger.last_entry
        state = f"is closed after entry {last}" if last >= 0 else "is closed without any entry"
    elif ledger.in_recovery:
        state = "is being recovered"
    ensembles = "; ".join(
        f"entries from {each.first_entry} on are on {', '.join(each.ensemble)}"
        for each in ledger.segments
    )
    return f"ledger {ledger_id} {state}; {ensembles}"


def _line(y: float, name: str, words: str) -> Mark:
    box = rect("box", 0, 0, 78, 24, rx=12, fill="ink")
    label = text("label", 39, 16.5, name, fill="page", bold=True, anchor="middle")
    state = text("state", GUTTER - MARGIN, 16.5, fitted(words, WIDTH - GUTTER))
    return group(name, box, label, state, x=MARGIN, y=y)


def lines_above(remarks: Sequence[tuple[str, str]]) -> Mark:
    """Return the remarks as a scene, for still pictures; pages show them as text."""
    parts, y = list[Mark](), float(MARGIN)
    for words, colour in remarks:
        for line in lines_of(words, WIDTH - 2 * MARGIN, 13, bold=True):
            parts.append(text(f"{y:g}", MARGIN, y + 13, line, size=13, bold=True, fill=colour))
            y += LINE
    return picture(WIDTH, y + 2, "", *parts)


def _columns(
    width: float,
    bookies: Sequence[str],
    pitch: float,
    messages: Sequence[Message],
    cuts: Mapping[str, str],
    offers: Callable[[str], bool],
) -> tuple[list[Mark], float]:
    if pitch >= NARROWEST:
        columns = _below_bookies(bookies, pitch, messages, cuts)
    else:
        columns = _side_by_side(width, messages, cuts)
    parts, lowest = list[Mark](), 0.0
    for at, column in enumerate(columns):
        marks, height = column_marks(f"column {at}", column, bookies, offers)
        parts.append(group(f"{at}", marks, y=30))
        lowest = max(lowest, height)
    return parts, lowest + 40


def _below_bookies(
    bookies: Sequence[str], pitch: float, messages: Sequence[Message], cuts: Mapping[str, str]
) -> list[Column]:
    """Return a column below each bookie, and one for the messages that do not involve a bookie. The
    latter is on the left, because the right side of the picture is not visible at first on a phone.
    """
    by_bookie: dict[str, list[Message]] = {name: [] for name in ("", *bookies)}
    for each in messages:
        by_bookie[next((end for end in (each.target, each.source) if end in bookies), "")] += [each]
    columns = [Column(4, GUTTER - 12, by_bookie.pop(""), ())]
    for at, (name, own) in enumerate(by_bookie.items()):
        cut = [cuts[name]] if name in cuts else []
        columns.append(Column(GUTTER + pitch * at, pitch - 6, own, cut))
    return columns


def _side_by_side(
    width: float, messages: Sequence[Message], cuts: Mapping[str, str]
) -> list[Column]:
    count = int((width - MARGIN) // MOST_PITCH)
    moves = list(cuts.values())
    return [
        Column(MARGIN + MOST_PITCH * at, MOST_PITCH - 6, messages[at::count], moves[at::count])
        for at in range(count)
    ]
