"""A labelled region of a file or a frame, as shown by the byte X-ray."""

from dataclasses import dataclass

from labkit.system.model.layout import Span


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of bytes, with a span for each field in it.

    `offset` and the offsets of `spans` are relative to the start of `file`. The first `safe_size`
    bytes are certain to survive a power failure. The byte at the offset `lined_up` is shown at the
    start of a row, so that pieces can be compared row by row. If there is no data, `absent` says
    why.
    """

    title: str
    file: str = ""
    offset: int = 0
    data: bytes = b""
    spans: tuple[Span, ...] = ()
    safe_size: int = 0
    lined_up: int = 0
    absent: str = ""

    @property
    def state(self) -> str:
        """One of "absent", "synced", "partly synced" and "not synced"."""
        if not self.data:
            return "absent"
        if self.safe_size >= len(self.data):
            return "synced"
        return "partly synced" if self.safe_size else "not synced"

    @property
    def words(self) -> str:
        """A short description of the state, or "" for bytes that are not in a file."""
        return self.absent or (self.state if self.file else "")
