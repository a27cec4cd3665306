"""Key_Shared: entries with the same key go to the same consumer.

    key -> hash (Murmur3, 0 to 65535) -> the consumer whose range contains the hash

Ranges move when consumers join or leave. To preserve the order within a key, at most one consumer
holds unacknowledged entries with a given hash. Therefore, when a range moves, its new owner waits
until the old owner has no more unacknowledged entries with that hash.

In Pulsar: `broker/service/HashRangeAutoSplitStickyKeyConsumerSelector.java`,
`HashRangeExclusiveStickyKeyConsumerSelector.java`, `DrainingHashesTracker.java`.
"""

import base64
import binascii
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.entry import bytes_of
from labkit.system.broker.dispatch.hashes import HASH_COUNT, Holders, hash_of_key
from labkit.system.broker.dispatch.waiting import Receiver, Receivers
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata, ServerError


def sticky_key(metadata: MessageMetadata) -> bytes:
    """Return the ordering key, or else the partition key, or else producer and sequence id."""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    key = bytes_of(metadata.partition_key)
    if metadata.partition_key_b64_encoded:
        try:
            return base64.b64decode(key, validate=True)
        except binascii.Error:
            pass  # The raw bytes are just as good an identifier.
    return key


@dataclass(slots=True)
class _Range:
    last_hash: int
    owner: Consumer


class AutoSplitRanges:
    """Divides the hashes among the consumers.

    A new consumer gets the lower half of the largest range. When a consumer leaves, its range is
    merged into the next one, or into the previous one if there is no next one.
    """

    def __init__(self) -> None:
        self._ranges: list[_Range] = []

    def add(self, consumer: Consumer) -> None:
        if not self._ranges:
            self._ranges = [_Range(HASH_COUNT - 1, consumer)]
            return
        firsts = [0, *(each.last_hash + 1 for each in self._ranges)]
        sizes = [each.last_hash - first for first, each in zip(firsts, self._ranges, strict=False)]
        index = sizes.index(max(sizes))
        middle = (firsts[index] + self._ranges[index].last_hash) // 2
        self._ranges.insert(index, _Range(middle, consumer))

    def remove(self, consumer: Consumer) -> None:
        self._ranges = [each for each in self._ranges if each.owner is not consumer]
        if self._ranges:
            self._ranges[-1].last_hash = HASH_COUNT - 1

    def owner_of(self, key_hash: int) -> Consumer | None:
        if not self._ranges:
            return None
        return self._ranges[
            bisect_left(self._ranges, key_hash, key=lambda each: each.last_hash)
        ].owner


class StickyRanges:
    """Assigns each consumer the ranges that it requests. The ranges must not overlap."""

    def __init__(self) -> None:
        self._ranges: dict[Consumer, Sequence[tuple[int, int]]] = {}

    def add(self, consumer: Consumer) -> None:
        """Raise `BrokerError` if the ranges are invalid or overlap another consumer's ranges."""
        ranges = consumer.hash_ranges
        if not ranges or any(not 0 <= first <= last < HASH_COUNT for first, last in ranges):
            raise BrokerError(
                ServerError.ConsumerAssignError,
                f"consumer {consumer.name!r} requested the hash ranges {_format_ranges(ranges)};"
                f" a sticky consumer needs at least one range between 0 and {HASH_COUNT - 1}",
            )
        for other, other_ranges in self._ranges.items():
            if any(a <= d and c <= b for a, b in ranges for c, d in other_ranges):
                raise BrokerError(
                    ServerError.ConsumerAssignError,
                    f"the hash ranges {_format_ranges(ranges)} of consumer {consumer.name!r}"
                    f" overlap {_format_ranges(other_ranges)} of consumer {other.name!r}",
                )
        self._ranges[consumer] = ranges

    def remove(self, consumer: Consumer) -> None:
        self._ranges.pop(consumer, None)

    def owner_of(self, key_hash: int) -> Consumer | None:
        for consumer, ranges in self._ranges.items():
            if any(first <= key_hash <= last for first, last in ranges):
                return consumer
        return None


class KeySharedSelector:
    """Selects the consumer whose range contains a hash. The group of an entry is its key's hash.

    If `keeps_order` is not set, a range's new owner does not wait for the old one.
    """

    def __init__(self, ranges: AutoSplitRanges | StickyRanges, *, keeps_order: bool) -> None:
        self.keeps_order = keeps_order
        self._ranges = ranges
        self._holders = Holders()

    def add(self, consumer: Consumer) -> None:
        self._ranges.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer. Call `entry_released` for each entry that it held."""
        self._ranges.remove(consumer)

    def group_of(self, metadata: MessageMetadata) -> int:
        return hash_of_key(sticky_key(metadata))

    def receiver_of(self, group: int) -> Receiver:
        """Return the owner of the hash, or NO_CONSUMER while another consumer holds entries."""
        owner, holder = self._ranges.owner_of(group), self._holders.holder_of(group)
        if owner is None or (self.keeps_order and holder not in (owner, None)):
            return Receivers.NO_CONSUMER
        return owner

    def choose(self, group: int) -> Consumer | None:
        receiver = self.receiver_of(group)
        return receiver if isinstance(receiver, Consumer) and receiver.can_receive() else None

    def entry_sent(self, consumer: Consumer, group: int) -> None:
        self._holders.add(consumer, group)

    def entry_released(self, group: int) -> None:
        self._holders.remove(group)


def _format_ranges(ranges: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{first} to {last}" for first, last in ranges) or "(none)"
