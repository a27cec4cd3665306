"""The flow control of a connection on which nothing ever waits, for peers that a test plays."""

from labkit.system.model.net import OnClose, OnWritable


class ReadyConnection:
    """The other end takes each frame at once, and sends nothing that `pause` could hold back."""

    is_writable = True

    def when_writable(self, on_writable: OnWritable) -> None:
        """It always is."""

    def pause(self) -> None:
        """Nothing waits here."""

    def resume(self) -> None:
        """Nothing waits here."""

    def when_closed(self, on_close: OnClose) -> None:
        """A client hears of the end by the `on_close` that it gave when it connected."""
