"""Messages and bytes that passed through a producer or a consumer, and how many there are a second.

In Pulsar: `pulsar-common/.../stats/Rate.java`.
"""


class Traffic:
    """Counters since the start, and the rates of the period between the last two updates."""

    __slots__ = (
        "byte_rate",
        "bytes",
        "bytes_before",
        "message_rate",
        "messages",
        "messages_before",
    )

    def __init__(self) -> None:
        self.messages = self.messages_before = 0
        self.bytes = self.bytes_before = 0
        self.message_rate = self.byte_rate = 0.0

    def add(self, messages: int, size_bytes: int) -> None:
        """Count messages."""
        self.messages += messages
        self.bytes += size_bytes

    def update_rates(self, period_s: float) -> None:
        """End a period of this length."""
        self.message_rate = (self.messages - self.messages_before) / period_s
        self.byte_rate = (self.bytes - self.bytes_before) / period_s
        self.messages_before, self.bytes_before = self.messages, self.bytes
