"""The bytes of chains and cursors, as Pulsar keeps them.

    a chain's node        ManagedLedgerInfo
    a cursor's node       ManagedCursorInfo: the name of its ledger, or the state itself
    a cursor's ledger     PositionInfo in each entry: the whole state, or a part of it

A state that is too large for one entry is split into several consecutive ones.  Each part is a
valid state by itself that acknowledges less, so a reader that knows nothing of parts, such as
Pulsar's broker, or one that finds only the first parts, redelivers messages but skips none.

A compressed node begins with
    0x4778, size (u32), which compression and the size of the body without it
and Pulsar reads it whatever its own configuration is.  labkit compresses only a chain that would
otherwise be too large for a node.

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
from labkit.system.metadata.store import LARGEST_NODE
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
"""A compressed node is decompressed up to this size; a larger one cannot be read."""
_LARGEST_PLAIN_CHAIN = LARGEST_NODE // 2
"""A longer chain of ledgers is compressed."""
_MOST_PARTS = 4
"""Entries for one state of a cursor: nearly 20 MiB."""
_ITEM_OVERHEAD = 8
"""At most: the tag and the length that come before a range or batch in a message."""

_Stored = TypeVar("_Stored", bound=Message)

IN_NODE = -1
"""Instead of the id of a cursor's ledger: the node itself has the state."""


class DamagedNodeError(LabkitError):
    """The bytes of a node or of a cursor's entry cannot be decoded.  Proves nothing about what
    was acknowledged or stored.
    """


@dataclass(frozen=True, slots=True)
class CursorNode:
    """A cursor's node: its ledger, or `IN_NODE`; a state; and a subscriber's properties."""

    ledger_id: int
    state: CursorState
    cursor_properties: tuple[tuple[str, str], ...] = ()


# Chains


def encode_chain(links: Sequence[LedgerInfo], before: bytes = b"") -> bytes:
    """The chain as the metadata store keeps it.

    Other fields of `before`, the node's bytes until now, are kept: other software may need them.
    Raises `DamagedNodeError`.
    """
    info = _parsed(ManagedLedgerInfo, unwrapped(before), "a chain of ledgers")
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
    """The inverse of `encode_chain`.  Raises `DamagedNodeError`."""
    info = _parsed(ManagedLedgerInfo, unwrapped(data), "a chain of ledgers")
    return [LedgerInfo(i.ledgerId, i.entries, i.size, i.timestamp) for i in info.ledgerInfo]


def decode_terminated(data: bytes) -> Position | None:
    """The last entry of a terminated chain; None if entries may still be appended.

    Raises `DamagedNodeError`.
    """
    info = _parsed(ManagedLedgerInfo, unwrapped(data), "a chain of ledgers")
    return _position(info.terminatedPosition) if info.HasField("terminatedPosition") else None


def with_terminated(data: bytes, last: Position) -> bytes:
    """The chain's node with the mark that nothing is appended after this entry.

    Raises `DamagedNodeError`.
    """
    info = _parsed(ManagedLedgerInfo, unwrapped(data), "a chain of ledgers")
    info.terminatedPosition.CopyFrom(_nested(last))
    return info.SerializeToString(deterministic=True)


def decode_properties(data: bytes) -> dict[str, str]:
    """The properties in the chain's node, by name.  Raises `DamagedNodeError`."""
    info = _parsed(ManagedLedgerInfo, unwrapped(data), "a chain of ledgers")
    return {each.key: each.value for each in info.properties}


def with_property(data: bytes, name: str, value: str | None) -> bytes:
    """Return the chain's node with one property set, or removed if the value is None.

    Raises `DamagedNodeError`.
    """
    info = _parsed(ManagedLedgerInfo, unwrapped(data), "a chain of ledgers")
    kept = [each for each in info.properties if each.key != name]
    del info.properties[:]
    info.properties.extend(kept)
    if value is not None:
        info.properties.add(key=name, value=value)
    return _chain_node(info)


# Cursors


def encode_cursor_node(node: CursorNode) -> bytes:
    """A cursor's node.  Ranges and batches are in it only if its ledger does not have them."""
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
    """The inverse.  Raises `DamagedNodeError`."""
    info = _parsed(ManagedCursorInfo, unwrapped(data), "the node of a cursor")
    state = CursorState(
        (info.markDeleteLedgerId, info.markDeleteEntryId),
        tuple(map(_range, info.individualDeletedMessages)),
        tuple(map(_batch, info.batchedEntryDeletionIndexInfo)),
        tuple((each.name, each.value) for each in info.properties),
    )
    properties = tuple((each.name, each.value) for each in info.cursorProperties)
    return CursorNode(info.cursorsLedgerId, state, properties)


def encode_position(state: CursorState) -> list[bytes]:
    """Return the entries that hold the state in a cursor's ledger: one, or several if it is large.

    The lowest ranges are in the last entry.  The highest ranges and batches are left out if they
    do not fit into the largest number of entries.  The properties are in every entry.
    """
    parts = [_position_info(state)]
    room = MAX_PAYLOAD_SIZE - parts[0].ByteSize() - _ITEM_OVERHEAD
    size = 0
    items: list[MessageRange | BatchedEntryDeletionIndexInfo]
    items = [*_message_ranges(state), *_batches(state)]
    for item in items:
        size += item.ByteSize() + _ITEM_OVERHEAD
        if size > room:
            if len(parts) == _MOST_PARTS:
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


def parts_before(data: bytes) -> int:
    """Return how many entries right before this one hold more of the same state.

    Raises `DamagedNodeError`.
    """
    return max(0, _parsed(PositionInfo, data, "the entry of a cursor").partsBefore)


def joined(parts: Sequence[CursorState]) -> CursorState:
    """Return the state whose parts these are, in the order of their entries."""
    return replace(
        parts[-1],
        ranges=tuple(concatenated.from_iterable(part.ranges for part in reversed(parts))),
        batches=tuple(concatenated.from_iterable(part.batches for part in reversed(parts))),
    )


def decode_position(data: bytes) -> CursorState:
    """Decode one entry; ranges may come as bits, too.  Raises `DamagedNodeError`."""
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


def words_of(bits: int) -> list[int]:
    """A bit set as Java's words: 64 bits each with a sign, the lowest first."""
    count = -(-bits.bit_length() // _WORD_BITS)
    return list(struct.unpack(f"<{count}q", bits.to_bytes(count * _WORD_BYTES, "little")))


def bits_of(words: Iterable[int]) -> int:
    """The inverse."""
    unsigned = [word & _WORD_MASK for word in words]
    return int.from_bytes(struct.pack(f"<{len(unsigned)}Q", *unsigned), "little")


def _message_ranges(state: CursorState) -> list[MessageRange]:
    return [
        MessageRange(lowerEndpoint=_nested(each.lower), upperEndpoint=_nested(each.upper))
        for each in state.ranges
    ]


def _range(stored: MessageRange) -> Range:
    lower, upper = _position(stored.lowerEndpoint), _position(stored.upperEndpoint)
    # A range may begin in an earlier ledger: it says nothing of that one's entries.
    return Range(lower if lower[0] == upper[0] else (upper[0], -1), upper)


def _ranges_of_bits(stored: LongListMap) -> Iterable[Range]:
    bits, at = bits_of(stored.values), 0
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
        BatchedEntryDeletionIndexInfo(position=_nested(position), deleteSet=words_of(left))
        for position, left in state.batches
    ]


def _batch(stored: BatchedEntryDeletionIndexInfo) -> tuple[Position, int]:
    return _position(stored.position), bits_of(stored.deleteSet)


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


def unwrapped(data: bytes) -> bytes:
    """The body of a node.  Raises `DamagedNodeError` for an unsupported compression."""
    if data[: _HEAD.size - 4] != _MAGIC.to_bytes(2, "big") or len(data) < _HEAD.size:
        return data
    end = _HEAD.size + _HEAD.unpack_from(data)[1]
    head = _parsed(ManagedLedgerInfoMetadata, data[_HEAD.size : end], "the header of a node")
    if head.compressionType == CompressionType.NONE:
        return data[end:]
    if head.compressionType == CompressionType.ZLIB:
        return _decompressed(data[end:])
    name = CompressionType.Name(head.compressionType)
    raise DamagedNodeError(
        f"a node is compressed with {name}, and only NONE and ZLIB are read: set"
        " managedLedgerInfoCompressionType and managedCursorInfoCompressionType of Pulsar's"
        " broker.conf to one of these, and open the topic there once"
    )


def _decompressed(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(data, _LARGEST_BODY + 1)
    except zlib.error as error:
        raise DamagedNodeError(f"a compressed node cannot be read: {error}") from None
    # A part of a body may be a shorter chain, whose owner would forget the other ledgers.
    if not stream.eof or len(body) > _LARGEST_BODY:
        raise DamagedNodeError(
            f"a compressed node cannot be read: it is cut off, or larger than {_LARGEST_BODY} bytes"
        )
    return body


def _parsed(kind: type[_Stored], data: bytes, what: str) -> _Stored:
    try:
        stored = kind.FromString(data)
    except DecodeError as error:
        raise DamagedNodeError(f"{what} cannot be read: {error}") from None
    if not stored.IsInitialized():
        raise DamagedNodeError(f"{what} cannot be read: a field that must be there is missing")
    return stored
