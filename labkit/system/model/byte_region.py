"""A piece of a file or a frame whose bytes have names: what the byte X-ray shows."""

from dataclasses import dataclass

from labkit.system.model.layout import Span


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes as they lie in one place.

    `offset` is that of the first byte in `file`, and the offsets of `spans` count from the same
    zero.  A power cut leaves the first `safe_size` bytes for sure; the others were not synced.
    `lined_up` is the offset of a byte that begins a row, so that two pieces with the same bytes
    can be compared row by row.  A piece without data says in `absent` why there is none.
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
        """The piece in a word: absent, synced, partly synced or not synced."""
        if not self.data:
            return "absent"
        if self.safe_size >= len(self.data):
            return "synced"
        return "partly synced" if self.safe_size else "not synced"

    @property
    def words(self) -> str:
        """What there is to say of it; nothing of bytes that are in no file."""
        return self.absent or (self.state if self.file else "")
