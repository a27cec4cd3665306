"""A connection without flow control, for peers that a test simulates."""

from labkit.system.model.net import OnClose, OnWritable


class ReadyConnection:
    """A connection whose peer accepts every frame immediately and sends no data that could be
    paused.
    """

    is_writable = True

    def when_writable(self, on_writable: OnWritable) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def when_closed(self, on_close: OnClose) -> None: ...
