"""Formats of chains and cursors, identical to Pulsar's.

    a chain's node        ManagedLedgerInfo
    a cursor's node       ManagedCursorInfo: the id of its ledger, or the state itself
    a cursor's ledger     PositionInfo in each entry: the complete state, or a part of it

A state that is too large for one entry is split into several consecutive entries, each of which is
a valid state in itself but acknowledges less. A reader that does not support parts, such as
Pulsar's broker, or that finds only the first entries, therefore redelivers messages but skips none.

A compressed node starts with
    0x4778, size (u32), compression type and uncompressed size of the body
Pulsar reads compressed nodes regardless of its own configuration. labkit compresses only long
chains, which might otherwise be too large for a node.

In Pulsar: `managed-ledger/src/main/proto/MLDataFormats.proto`, `MetaStoreImpl.java`.
"""

import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain as concatenated
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.metadata.store import MAX_NODE_BYTES
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.managed_ledger_pb2 import (
    BatchedEntryDeletionIndexInfo,
    CompressionType,
    LongListMap,
    LongProperty,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    ManagedLedgerInfoMetadata,
    MessageRange,
    NestedPositionInfo,
    PositionInfo,
)
from labkit.system.topic.chain.acknowledged import CursorState, Range
from labkit.system.topic.chain.chain import LedgerInfo, Position

_MAGIC = 0x4778
_HEAD = struct.Struct(">HI")
_WORD_BITS = 64
_WORD_MASK = (1 << _WORD_BITS) - 1
_WORD_BYTES = 8
_LARGEST_BODY = 16 * 1024 * 1024
"""The limit for the uncompressed size of a node."""
_LARGEST_PLAIN_CHAIN = MAX_NODE_BYTES // 2
"""Larger chains are compressed."""
_MAX_PARTS = 4
"""The maximum number of entries for one state of a cursor, together nearly 20 MiB."""
_ITEM_OVERHEAD = 8
"""Upper bound for the size of the tag and the length that precede a range or batch."""

_Stored = TypeVar("_Stored", bound=Message)

_DELETION_MARK = "labkit.deleting"
"""The property of a chain that is being deleted."""

IN_NODE = -1
"""Stored instead of a ledger id if the node itself contains the cursor's state."""


class DamagedNodeError(LabkitError):
    """The bytes of a node or of a cursor's entry cannot be decoded."""


@dataclass(frozen=True, slots=True)
class CursorNode:
    """The content of a cursor's node.

    `ledger_id` may be `IN_NODE`; `cursor_properties` are the properties set by the subscriber.
    """

    ledger_id: int
    state: CursorState
    cursor_properties: tuple[tuple[str, str], ...] = ()


# Chains


def encode_chain(links: Sequence[LedgerInfo], before: bytes = b"") -> bytes:
    """Encode a chain's node; keep the other fields of its previous content, `before`.

    Raises `DamagedNodeError`.
    """
    info = _chain_info(before)
    known = {link.ledgerId: link for link in info.ledgerInfo}
    encoded = []
    for link in links:
        one = known.get(link.ledger_id, ManagedLedgerInfo.LedgerInfo(ledgerId=link.ledger_id))
        one.timestamp = link.closed_at_ms
        if link.closed_at_ms:
            one.entries, one.size = link.entry_count, link.size_bytes
        encoded.append(one)
    del info.ledgerInfo[:]
    info.ledgerInfo.extend(encoded)
    return _chain_node(info)


def decode_chain(data: bytes) -> list[LedgerInfo]:
    """Raise `DamagedNodeError` if the data is invalid."""
    info = _chain_info(data)
    return [LedgerInfo(i.ledgerId, i.entries, i.size, i.timestamp) for i in info.ledgerInfo]


def decode_terminated(data: bytes) -> Position | None:
    """Return the last entry of a terminated chain, or else None. Raises `DamagedNodeError`."""
    info = _chain_info(data)
    return _position(info.terminatedPosition) if info.HasField("terminatedPosition") else None


def with_terminated(data: bytes, last: Position) -> bytes:
    """Mark the chain as terminated after this entry. Raises `DamagedNodeError`."""
    info = _chain_info(data)
    info.terminatedPosition.CopyFrom(_nested(last))
    return _chain_node(info)


def decode_properties(data: bytes) -> dict[str, str]:
    """Return the properties of the chain. Raises `DamagedNodeError`."""
    info = _chain_info(data)
    return {each.key: each.value for each in info.properties}


def is_marked_for_deletion(data: bytes) -> bool:
    """Return whether the topic can only be deleted (`deletion`). Raises `DamagedNodeError`."""
    return _DELETION_MARK in decode_properties(data)


def with_deletion_mark(data: bytes, *, marked: bool) -> bytes:
    """Add or remove the mark. Raises `DamagedNodeError`."""
    return with_property(data, _DELETION_MARK, "true" if marked else None)


def with_property(data: bytes, name: str, value: str | None) -> bytes:
    """Set a property of the chain; None removes it. Raises `DamagedNodeError`."""
    info = _chain_info(data)
    kept = [each for each in info.properties if each.key != name]
    del info.properties[:]
    info.properties.extend(kept)
    if value is not None:
        info.properties.add(key=name, value=value)
    return _chain_node(info)


def _chain_info(data: bytes) -> ManagedLedgerInfo:
    return _parsed(ManagedLedgerInfo, decompress_node(data), "a chain of ledgers")


# Cursors


def encode_cursor_node(node: CursorNode) -> bytes:
    """Encode a cursor's node; include ranges and batches only if no ledger contains them."""
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
    """Raise `DamagedNodeError` if the data is invalid."""
    info = _parsed(ManagedCursorInfo, decompress_node(data), "the node of a cursor")
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
    ranges and batches are omitted if they would exceed the maximum number of entries.
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
    """Return how many earlier entries belong to the same state. Raises `DamagedNodeError`."""
    return max(0, _parsed(PositionInfo, data, "the entry of a cursor").partsBefore)


def join_parts(parts: Sequence[CursorState]) -> CursorState:
    return replace(
        parts[-1],
        ranges=tuple(concatenated.from_iterable(part.ranges for part in reversed(parts))),
        batches=tuple(concatenated.from_iterable(part.batches for part in reversed(parts))),
    )


def decode_position(data: bytes) -> CursorState:
    """Decode an entry; its ranges may also be stored as bit sets. Raises `DamagedNodeError`."""
    info = _parsed(PositionInfo, data, "the entry of a cursor")
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
        MessageRange(lowerEndpoint=_nested(each.lower), upperEndpoint=_nested(each.upper))
        for each in state.ranges
    ]


def _range(stored: MessageRange) -> Range:
    lower, upper = _position(stored.lowerEndpoint), _position(stored.upperEndpoint)
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
        BatchedEntryDeletionIndexInfo(position=_nested(position), deleteSet=to_java_longs(left))
        for position, left in state.batches
    ]


def _batch(stored: BatchedEntryDeletionIndexInfo) -> tuple[Position, int]:
    return _position(stored.position), from_java_longs(stored.deleteSet)


def _long_properties(state: CursorState) -> list[LongProperty]:
    return [LongProperty(name=name, value=value) for name, value in state.properties]


def _nested(position: Position) -> NestedPositionInfo:
    return NestedPositionInfo(ledgerId=position[0], entryId=position[1])


def _position(stored: NestedPositionInfo) -> Position:
    return stored.ledgerId, stored.entryId


# Compressed nodes


def _chain_node(info: ManagedLedgerInfo) -> bytes:
    body = info.SerializeToString(deterministic=True)
    if len(body) <= _LARGEST_PLAIN_CHAIN:
        return body
    head = ManagedLedgerInfoMetadata(
        compressionType=CompressionType.ZLIB, uncompressedSize=len(body)
    ).SerializeToString()
    return _HEAD.pack(_MAGIC, len(head)) + head + zlib.compress(body)


def decompress_node(data: bytes) -> bytes:
    """Raise `DamagedNodeError` if the data is invalid or the compression is not supported."""
    if data[: _HEAD.size - 4] != _MAGIC.to_bytes(2, "big") or len(data) < _HEAD.size:
        return data
    end = _HEAD.size + _HEAD.unpack_from(data)[1]
    head = _parsed(ManagedLedgerInfoMetadata, data[_HEAD.size : end], "the header of a node")
    if head.compressionType == CompressionType.NONE:
        return data[end:]
    if head.compressionType == CompressionType.ZLIB:
        return _decompress(data[end:])
    name = CompressionType.Name(head.compressionType)
    raise DamagedNodeError(
        f"unsupported compression {name} of a node; supported types: NONE, ZLIB.  Set"
        " managedLedgerInfoCompressionType and managedCursorInfoCompressionType of Pulsar's"
        " broker.conf to one of these, then open the topic once in Pulsar"
    )


def _decompress(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(data, _LARGEST_BODY + 1)
    except zlib.error as error:
        raise DamagedNodeError(f"a compressed node cannot be read: {error}") from None
    # A truncated body may decode as a shorter chain, whose owner would lose the other ledgers.
    if not stream.eof or len(body) > _LARGEST_BODY:
        raise DamagedNodeError(
            "a compressed node cannot be read: it is truncated, or its body is larger than"
            f" {_LARGEST_BODY} bytes"
        )
    return body


def _parsed(kind: type[_Stored], data: bytes, description: str) -> _Stored:
    try:
        stored = kind.FromString(data)
    except DecodeError as error:
        raise DamagedNodeError(f"{description} cannot be read: {error}") from None
    if not stored.IsInitialized():
        raise DamagedNodeError(f"{description} cannot be read: a required field is missing")
    return stored
