"""Counts messages and bytes, and computes their rates between the last two updates.

In Pulsar: `pulsar-common/.../stats/Rate.java`.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Traffic:
    messages: int = 0
    bytes: int = 0
    message_rate: float = 0.0
    byte_rate: float = 0.0
    _before: tuple[int, int] = (0, 0)

    def add(self, messages: int, size_bytes: int) -> None:
        self.messages += messages
        self.bytes += size_bytes

    def update_rates(self, period_s: float) -> None:
        self.message_rate = (self.messages - self._before[0]) / period_s
        self.byte_rate = (self.bytes - self._before[1]) / period_s
        self._before = self.messages, self.bytes
