"""Key_Shared: which consumer gets the entries of a key.

    key -> hash (Murmur3, 0 to 65535) -> the consumer whose range holds the hash

Ranges move when consumers come and go.  Rule: at most one consumer holds unacknowledged entries of
a hash.  So after a range has moved, its new owner waits until the old owner holds no more entries
of the hash, and a key's order survives.

In Pulsar: `broker/service/HashRangeAutoSplitStickyKeyConsumerSelector.java`,
`HashRangeExclusiveStickyKeyConsumerSelector.java`, `DrainingHashesTracker.java`.
"""

import base64
import binascii
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.hashes import HASH_COUNT, Holders, hash_of_key
from labkit.system.broker.dispatch.waiting import Receiver, Receivers
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata, ServerError


def sticky_key(metadata: MessageMetadata) -> bytes:
    """The key that keeps entries together: the ordering key, else the key, else the producer's name
    and the sequence id, which spreads entries without a key.
    """
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    text: str | bytes = metadata.partition_key
    key = text if isinstance(text, bytes) else text.encode()  # protobuf gives bytes if not UTF-8.
    if metadata.partition_key_b64_encoded:
        try:
            return base64.b64decode(key, validate=True)
        except binascii.Error:
            pass  # Not base64, although it says so: the raw bytes identify the key as well.
    return key


@dataclass(slots=True)
class _Range:
    last_hash: int
    owner: Consumer


class HashRanges(Protocol):
    """The consumers' parts of the ring."""

    def add(self, consumer: Consumer) -> None:
        """Give a consumer its part.  Raises `BrokerError`."""

    def remove(self, consumer: Consumer) -> None:
        """Take its part back."""

    def owner_of(self, key_hash: int) -> Consumer | None:
        """The consumer whose part contains the hash; None: no consumer, so its entries wait."""


class AutoSplitRanges:
    """Every hash has an owner: a new consumer takes half of the largest range, one that leaves
    gives its range to a neighbour.
    """

    def __init__(self) -> None:
        self._ranges: list[_Range] = []

    def add(self, consumer: Consumer) -> None:
        """Give the new consumer the lower half of the largest range."""
        if not self._ranges:
            self._ranges = [_Range(HASH_COUNT - 1, consumer)]
            return
        firsts = [0, *(each.last_hash + 1 for each in self._ranges)]
        sizes = [each.last_hash - first for first, each in zip(firsts, self._ranges, strict=False)]
        at = sizes.index(max(sizes))
        middle = (firsts[at] + self._ranges[at].last_hash) // 2
        self._ranges.insert(at, _Range(middle, consumer))

    def remove(self, consumer: Consumer) -> None:
        """Join its range to the next one, or, at the end of the ring, to the one before."""
        self._ranges = [each for each in self._ranges if each.owner is not consumer]
        if self._ranges:
            self._ranges[-1].last_hash = HASH_COUNT - 1

    def owner_of(self, key_hash: int) -> Consumer | None:
        """The consumer whose range the hash is in; None only without consumers."""
        if not self._ranges:
            return None
        return self._ranges[
            bisect_left(self._ranges, key_hash, key=lambda each: each.last_hash)
        ].owner


class StickyRanges:
    """Consumers name their ranges; no two may overlap."""

    def __init__(self) -> None:
        self._ranges: dict[Consumer, Sequence[tuple[int, int]]] = {}

    def add(self, consumer: Consumer) -> None:
        """Raises `BrokerError` for ranges that are invalid or another consumer's."""
        ranges = consumer.hash_ranges
        if not ranges or any(not 0 <= first <= last < HASH_COUNT for first, last in ranges):
            raise BrokerError(
                ServerError.ConsumerAssignError,
                f"consumer {consumer.name!r} asks for the hash ranges {_text(ranges)}; a sticky"
                f" consumer needs at least one, first to last within 0 to {HASH_COUNT - 1}",
            )
        for other, taken in self._ranges.items():
            if any(a <= d and c <= b for a, b in ranges for c, d in taken):
                raise BrokerError(
                    ServerError.ConsumerAssignError,
                    f"the hash ranges {_text(ranges)} of consumer {consumer.name!r} overlap with"
                    f" {_text(taken)} of consumer {other.name!r}",
                )
        self._ranges[consumer] = ranges

    def remove(self, consumer: Consumer) -> None:
        """Free the consumer's ranges."""
        self._ranges.pop(consumer, None)

    def owner_of(self, key_hash: int) -> Consumer | None:
        """The consumer whose named ranges contain the hash."""
        for consumer, ranges in self._ranges.items():
            if any(first <= key_hash <= last for first, last in ranges):
                return consumer
        return None


class KeyShared:
    """Chooses by key.  `keeps_order` False: a moved range's new owner does not wait."""

    def __init__(self, ranges: HashRanges, *, keeps_order: bool) -> None:
        self.keeps_order = keeps_order
        self._ranges = ranges
        self._holders = Holders()

    def add(self, consumer: Consumer) -> None:
        """Raises `BrokerError` when the consumer's hash ranges are not available."""
        self._ranges.add(consumer)

    def remove(self, consumer: Consumer) -> None:
        """The consumer left; what it held is given back by `given_back`."""
        self._ranges.remove(consumer)

    def hash_of(self, metadata: MessageMetadata) -> int:
        """The hash of an entry's key: entries of one hash keep their order."""
        return hash_of_key(sticky_key(metadata))

    def receiver_of(self, key_hash: int) -> Receiver:
        """The owner of the hash; no consumer while another consumer holds entries of the hash."""
        owner, holder = self._ranges.owner_of(key_hash), self._holders.of(key_hash)
        if owner is None or (self.keeps_order and holder not in (owner, None)):
            return Receivers.NO_CONSUMER
        return owner

    def choose(self, key_hash: int) -> Consumer | None:
        """The consumer that may get an entry of this hash now; None: it waits."""
        receiver = self.receiver_of(key_hash)
        return receiver if isinstance(receiver, Consumer) and receiver.can_take() else None

    def handed_out(self, consumer: Consumer, key_hash: int) -> None:
        """The consumer holds one more unacknowledged entry of the hash."""
        self._holders.add(consumer, key_hash)

    def given_back(self, key_hash: int) -> None:
        """One entry of the hash was acknowledged, or its consumer no longer holds it."""
        self._holders.remove(key_hash)


def _text(ranges: Sequence[tuple[int, int]]) -> str:
    return ", ".join(f"{first} to {last}" for first, last in ranges) or "(none)"
