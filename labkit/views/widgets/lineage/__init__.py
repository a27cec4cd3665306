"""The lineage of a message: from the four numbers of its MessageID down to bytes in files.

MessageID -> partition -> ledger in its chain -> entry -> index in the batch -> bookies of the write
set -> file, offset and bytes on each.

Read the modules in this order: `rows`, `picture`.
"""

from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.film import Beat, Film
from labkit.views.widgets.lineage.picture import LineagePicture
from labkit.views.widgets.lineage.rows import copy_words
from labkit.views.widgets.scene_view import Message, SceneView
from labkit.views.xray.message_location import Lineage

COPY_MS = 1000
"""The time in milliseconds for which each copy is shown while the view plays."""


class MessageIdLineage(SceneView):
    """Shows where a message is stored, and its bytes on the chosen bookie."""

    question = "How does a MessageID lead to the bytes of its message?"

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        copies = range(len(lineage.copies))
        self._shown = next((at for at in copies if lineage.copies[at].piece.data), 0)
        positions = [float(COPY_MS * at) for at in copies]
        picture, self.reel = LineagePicture(lineage), Film()
        for at in copies:
            scene = picture.scene(at, positions, repr(self))
            self.reel.add(Beat(positions[at], scene, copy_words(lineage, at), at))
        self._legend = picture.legend()
        super().__init__()

    @property
    def bookie(self) -> str:
        """The bookie whose bytes are shown. Setting this property raises `ValueError` if the bookie
        is not in the write set.
        """
        return self._lineage.copies[self._shown].bookie

    @bookie.setter
    def bookie(self, name: str) -> None:
        bookies = [copy.bookie for copy in self._lineage.copies]
        if name not in bookies:
            raise ValueError(
                f"{name} is not in the write set; expected one of: {', '.join(bookies)}"
            )
        self._shown = bookies.index(name)
        self.redraw()

    def scene(self) -> Mark:
        return self.reel.beats[self._shown].scene

    def legend(self) -> Mark | None:
        return self._legend

    def whole(self) -> Message:
        return self.choices_message(self.reel, self._shown)

    def on_shown(self, number: int) -> None:
        self._shown = number
        self.open_at(self.reel.beats[number].at)

    def __repr__(self) -> str:
        it, lineage = self._lineage.message_id, self._lineage
        count = lineage.batch_size
        place = f"message {it.batch_index} of 0 to {count - 1}" if count else "one message"
        where = ", ".join(
            f"{copy.bookie} {copy.piece.file}@{copy.piece.offset}"
            if copy.piece.data
            else f"{copy.bookie} {copy.piece.absent}"
            for copy in lineage.copies
        )
        return (
            f"MessageID {it}: {lineage.topic}, chain of {len(lineage.chain)},"
            f" ledger {it.ledger_id}, entry {it.entry_id}, {place}; {where}"
        )
