"""A connection without flow control, for peers that a test simulates."""

from labkit.system.model.net import OnClose, OnWritable


class ReadyConnection:
    """A connection whose peer accepts every frame immediately and sends no data that could be
    paused.
    """

    is_writable = True

    def when_writable(self, on_writable: OnWritable) -> None:
        """Do nothing, because the connection is always writable."""

    def pause(self) -> None:
        """Do nothing, because no data arrives that could be paused."""

    def resume(self) -> None:
        """Do nothing, because `pause` does nothing either."""

    def when_closed(self, on_close: OnClose) -> None:
        """Do nothing, because the client passed its `on_close` callback when it connected."""
