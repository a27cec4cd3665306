"""What the consumers of one step were delivered, all together."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.system.topic.chain.chain import Position

_QUIET_TURNS = 5
"""How often a consumer asks in vain before it takes the newest message for the last."""


@dataclass(slots=True)
class DeliveredMessages:
    """What all consumers of the step were delivered, and have acknowledged.

    The step wants `messages` different ones, and after `start_over_after` entries all of them again
    (0: never).
    """

    messages: int
    consumers: int
    start_over_after: int
    names: set[tuple[str, int]] = field(default_factory=set)
    """The messages, by producer and sequence id."""
    unacknowledged: dict[int, list[Position]] = field(default_factory=dict)
    """The entries, by the number of the consumer."""
    quiet_turns: dict[int, int] = field(default_factory=dict)
    """How many times each consumer has found that nothing more comes."""
    entry_count: int = 0
    """Deliveries so far, those of all consumers."""
    has_started_over: bool = False
    is_all: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def has_all_names(self) -> bool:
        """Whether as many different messages were delivered as the step wants."""
        return len(self.names) >= self.messages

    def add(self, number: int, position: Position, names: Sequence[tuple[str, int]]) -> None:
        """A consumer was delivered the entry."""
        self.names.update(names)
        self.unacknowledged[number].append(position)
        self.entry_count += 1
        self.quiet_turns.clear()

    def starts_over(self) -> bool:
        """Whether it is time to go back to the first message; true once.  From then on the step
        wants all messages again.
        """
        after = self.start_over_after
        if not after or self.has_started_over or self.entry_count < after:
            return False
        self.has_started_over = True
        self.names.clear()
        return True

    def see(self) -> None:
        """See whether these are all messages."""
        if any(self.unacknowledged.values()):
            return
        quiet = [self.quiet_turns.get(number, 0) for number in range(self.consumers)]
        if self.has_all_names or min(quiet) >= _QUIET_TURNS:
            self.is_all.set()
