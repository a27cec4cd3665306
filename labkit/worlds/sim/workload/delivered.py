"""The messages delivered to all consumers of a step."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.system.topic.chain.ledger_chain import Position

_QUIET_TURNS = 5
"""After this many consecutive requests without a result, a consumer expects no more messages."""


@dataclass(slots=True)
class DeliveredMessages:
    """The messages that the consumers of a step have received and acknowledged.

    The step requires `messages` different messages. After `start_over_after` entries (0: never), it
    requires all of these messages a second time.
    """

    messages: int
    consumers: int
    start_over_after: int
    names: set[tuple[str, int]] = field(default_factory=set)
    """The messages that have been received, by producer and sequence id."""
    unacknowledged: dict[int, list[Position]] = field(default_factory=dict)
    """Unacknowledged entries, by the number of the consumer."""
    quiet_turns: dict[int, int] = field(default_factory=dict)
    """How many times in a row each consumer has found no further messages."""
    entry_count: int = 0
    """The number of deliveries to all consumers so far."""
    has_started_over: bool = False
    is_complete: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has_enough_messages(self) -> bool:
        return len(self.names) >= self.messages

    def add(self, number: int, position: Position, names: Sequence[tuple[str, int]]) -> None:
        self.names.update(names)
        self.unacknowledged[number].append(position)
        self.entry_count += 1
        self.quiet_turns.clear()

    def is_time_to_start_over(self) -> bool:
        """Return True once, as soon as the step must consume all messages a second time."""
        after = self.start_over_after
        if not after or self.has_started_over or self.entry_count < after:
            return False
        self.has_started_over = True
        self.names.clear()
        return True

    def check_complete(self) -> None:
        """Complete the step if everything is acknowledged and no more messages are expected."""
        if any(self.unacknowledged.values()):
            return
        quiet = [self.quiet_turns.get(number, 0) for number in range(self.consumers)]
        if self.has_enough_messages or min(quiet) >= _QUIET_TURNS:
            self.is_complete.set()
