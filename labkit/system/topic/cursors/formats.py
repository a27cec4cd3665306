"""The formats of cursors, identical to Pulsar's.

    a cursor's node       ManagedCursorInfo: the id of its ledger, or the state itself
    a cursor's ledger     PositionInfo in each entry: the complete state, or a part of it

A state that is too large for one entry is split into several consecutive entries. Each entry is a
valid state by itself, but with fewer acknowledgements. A reader that does not support parts (such
as Pulsar's broker) or that finds only the first entries therefore redelivers messages, but skips
none.

Every function raises `DamagedNodeError` if stored bytes cannot be decoded.

In Pulsar: `managed-ledger/src/main/proto/MLDataFormats.proto`, `MetaStoreImpl.java`.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain as concatenated

from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.proto.managed_ledger_pb2 import (
    BatchedEntryDeletionIndexInfo,
    LongListMap,
    LongProperty,
    ManagedCursorInfo,
    MessageRange,
    PositionInfo,
)
from labkit.system.topic.chain.formats import (
    decode_nested,
    decompress_node,
    encode_nested,
    parse_stored,
)
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.acknowledged import CursorState, Range

_WORD_BITS = 64
_WORD_MASK = (1 << _WORD_BITS) - 1
_WORD_BYTES = 8
_MAX_PARTS = 4
"""The maximum number of entries for one state of a cursor; together, they hold nearly 20 MiB."""
_ITEM_OVERHEAD = 8
"""An upper bound for the tag and the length that precede a range or batch."""

IN_NODE = -1
"""Stored instead of a ledger id if the node itself contains the cursor's state."""


@dataclass(frozen=True, slots=True)
class CursorNode:
    """`ledger_id` may be `IN_NODE`; the subscriber has set the `cursor_properties`."""

    ledger_id: int
    state: CursorState
    cursor_properties: tuple[tuple[str, str], ...] = ()


def encode_cursor_node(node: CursorNode) -> bytes:
    """Encode a cursor's node. Include ranges and batches only if they are not in a ledger."""
    state = node.state
    info = ManagedCursorInfo(
        cursorsLedgerId=node.ledger_id,
        markDeleteLedgerId=state.mark_delete[0],
        markDeleteEntryId=state.mark_delete[1],
        properties=_long_properties(state),
    )
    if node.ledger_id == IN_NODE:
        info.individualDeletedMessages.extend(_message_ranges(state))
        info.batchedEntryDeletionIndexInfo.extend(_batches(state))
    for name, value in node.cursor_properties:
        info.cursorProperties.add(name=name, value=value)
    return info.SerializeToString(deterministic=True)


def decode_cursor_node(data: bytes) -> CursorNode:
    info = parse_stored(ManagedCursorInfo, decompress_node(data), "the node of a cursor")
    state = CursorState(
        (info.markDeleteLedgerId, info.markDeleteEntryId),
        tuple(map(_range, info.individualDeletedMessages)),
        tuple(map(_batch, info.batchedEntryDeletionIndexInfo)),
        tuple((each.name, each.value) for each in info.properties),
    )
    properties = tuple((each.name, each.value) for each in info.cursorProperties)
    return CursorNode(info.cursorsLedgerId, state, properties)


def encode_position(state: CursorState) -> list[bytes]:
    """Encode the state as entries of a cursor's ledger, usually as a single entry.

    The lowest ranges are in the last entry, and the properties are in every entry. The highest
    ranges and batches are dropped if they do not fit into the maximum number of entries.
    """
    parts = [_position_info(state)]
    room = MAX_PAYLOAD_SIZE - parts[0].ByteSize() - _ITEM_OVERHEAD
    size = 0
    items: list[MessageRange | BatchedEntryDeletionIndexInfo]
    items = [*_message_ranges(state), *_batches(state)]
    for item in items:
        size += item.ByteSize() + _ITEM_OVERHEAD
        if size > room:
            if len(parts) == _MAX_PARTS:
                break
            parts.append(_position_info(state))
            size = item.ByteSize() + _ITEM_OVERHEAD
        if isinstance(item, MessageRange):
            parts[-1].individualDeletedMessages.append(item)
        else:
            parts[-1].batchedEntryDeletionIndexInfo.append(item)
    parts.reverse()
    for number, part in enumerate(parts[1:], 1):
        part.partsBefore = number
    return [part.SerializeToString() for part in parts]


def _position_info(state: CursorState) -> PositionInfo:
    ledger_id, entry_id = state.mark_delete
    return PositionInfo(ledgerId=ledger_id, entryId=entry_id, properties=_long_properties(state))


def count_parts_before(data: bytes) -> int:
    """Return how many earlier entries belong to the same state."""
    return max(0, parse_stored(PositionInfo, data, "the entry of a cursor").partsBefore)


def join_parts(parts: Sequence[CursorState]) -> CursorState:
    return replace(
        parts[-1],
        ranges=tuple(concatenated.from_iterable(part.ranges for part in reversed(parts))),
        batches=tuple(concatenated.from_iterable(part.batches for part in reversed(parts))),
    )


def decode_position(data: bytes) -> CursorState:
    """Decode an entry, whose ranges may also be stored as bit sets."""
    info = parse_stored(PositionInfo, data, "the entry of a cursor")
    ranges = concatenated(
        map(_range, info.individualDeletedMessages),
        concatenated.from_iterable(map(_ranges_of_bits, info.individualDeletedMessageRanges)),
    )
    return CursorState(
        (info.ledgerId, info.entryId),
        tuple(ranges),
        tuple(map(_batch, info.batchedEntryDeletionIndexInfo)),
        tuple((each.name, each.value) for each in info.properties),
    )


def to_java_longs(bits: int) -> list[int]:
    """Convert a bit set to Java longs: signed 64-bit words, the lowest first."""
    count = -(-bits.bit_length() // _WORD_BITS)
    return list(struct.unpack(f"<{count}q", bits.to_bytes(count * _WORD_BYTES, "little")))


def from_java_longs(words: Iterable[int]) -> int:
    unsigned = [word & _WORD_MASK for word in words]
    return int.from_bytes(struct.pack(f"<{len(unsigned)}Q", *unsigned), "little")


def _message_ranges(state: CursorState) -> list[MessageRange]:
    return [
        MessageRange(
            lowerEndpoint=encode_nested(each.lower), upperEndpoint=encode_nested(each.upper)
        )
        for each in state.ranges
    ]


def _range(stored: MessageRange) -> Range:
    lower, upper = decode_nested(stored.lowerEndpoint), decode_nested(stored.upperEndpoint)
    # A range may start in an earlier ledger, but covers none of that ledger's entries.
    return Range(lower if lower[0] == upper[0] else (upper[0], -1), upper)


def _ranges_of_bits(stored: LongListMap) -> Iterable[Range]:
    bits, at = from_java_longs(stored.values), 0
    while bits:
        unset = (bits & -bits).bit_length() - 1
        bits >>= unset
        length = (~bits & (bits + 1)).bit_length() - 1
        first = at + unset
        yield Range((stored.key, first - 1), (stored.key, first + length - 1))
        bits >>= length
        at = first + length


def _batches(state: CursorState) -> list[BatchedEntryDeletionIndexInfo]:
    return [
        BatchedEntryDeletionIndexInfo(
            position=encode_nested(position), deleteSet=to_java_longs(left)
        )
        for position, left in state.batches
    ]


def _batch(stored: BatchedEntryDeletionIndexInfo) -> tuple[Position, int]:
    return decode_nested(stored.position), from_java_longs(stored.deleteSet)


def _long_properties(state: CursorState) -> list[LongProperty]:
    return [LongProperty(name=name, value=value) for name, value in state.properties]
