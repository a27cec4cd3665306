"""The format of a chain's node, identical to Pulsar's `ManagedLedgerInfo`.

A compressed node starts with
    0x4778, size (u32), compression type and uncompressed size of the body
Pulsar can read compressed nodes regardless of its configuration. labkit compresses only long
chains, which might otherwise be too large for a node.

Every function raises `DamagedNodeError` if stored bytes cannot be decoded.

In Pulsar: `managed-ledger/src/main/proto/MLDataFormats.proto`, `MetaStoreImpl.java`.
"""

import struct
import zlib
from collections.abc import Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from labkit.system.metadata.store import MAX_NODE_BYTES
from labkit.system.model.errors import LabkitError
from labkit.system.model.proto.managed_ledger_pb2 import (
    CompressionType,
    ManagedLedgerInfo,
    ManagedLedgerInfoMetadata,
    NestedPositionInfo,
)
from labkit.system.topic.chain.ledger_chain import LedgerInfo, Position

_MAGIC = 0x4778
_HEAD = struct.Struct(">HI")
_LARGEST_BODY = 16 * 1024 * 1024
"""The maximum uncompressed size of a node."""
_LARGEST_PLAIN_CHAIN = MAX_NODE_BYTES // 2
"""Larger chains are compressed."""
_DELETION_MARK = "labkit.deleting"
"""The property of a chain that is being deleted."""

_Stored = TypeVar("_Stored", bound=Message)


class DamagedNodeError(LabkitError):
    """The bytes of a node or of a cursor's entry cannot be decoded."""


# Chains


def encode_chain(links: Sequence[LedgerInfo], before: bytes = b"") -> bytes:
    """Encode a chain's node. Keep the other fields of `before`, which is its previous content."""
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
    info = _chain_info(data)
    return [LedgerInfo(i.ledgerId, i.entries, i.size, i.timestamp) for i in info.ledgerInfo]


def decode_terminated(data: bytes) -> Position | None:
    """Return the last entry of a terminated chain, or None if the chain is not terminated."""
    info = _chain_info(data)
    return decode_nested(info.terminatedPosition) if info.HasField("terminatedPosition") else None


def with_terminated(data: bytes, last: Position) -> bytes:
    info = _chain_info(data)
    info.terminatedPosition.CopyFrom(encode_nested(last))
    return _chain_node(info)


def decode_properties(data: bytes) -> dict[str, str]:
    info = _chain_info(data)
    return {each.key: each.value for each in info.properties}


def is_marked_for_deletion(data: bytes) -> bool:
    """Return whether the topic has been marked for deletion (`deletion`)."""
    return _DELETION_MARK in decode_properties(data)


def with_deletion_mark(data: bytes, *, marked: bool) -> bytes:
    return with_property(data, _DELETION_MARK, "true" if marked else None)


def with_property(data: bytes, name: str, value: str | None) -> bytes:
    """Set a property of the chain, or remove it if `value` is None."""
    info = _chain_info(data)
    kept = [each for each in info.properties if each.key != name]
    del info.properties[:]
    info.properties.extend(kept)
    if value is not None:
        info.properties.add(key=name, value=value)
    return _chain_node(info)


def _chain_info(data: bytes) -> ManagedLedgerInfo:
    return parse_stored(ManagedLedgerInfo, decompress_node(data), "a chain of ledgers")


# Positions


def encode_nested(position: Position) -> NestedPositionInfo:
    return NestedPositionInfo(ledgerId=position[0], entryId=position[1])


def decode_nested(stored: NestedPositionInfo) -> Position:
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
    if data[: _HEAD.size - 4] != _MAGIC.to_bytes(2, "big") or len(data) < _HEAD.size:
        return data
    end = _HEAD.size + _HEAD.unpack_from(data)[1]
    head = parse_stored(ManagedLedgerInfoMetadata, data[_HEAD.size : end], "the header of a node")
    if head.compressionType == CompressionType.NONE:
        return data[end:]
    if head.compressionType == CompressionType.ZLIB:
        return _decompress(data[end:])
    name = CompressionType.Name(head.compressionType)
    raise DamagedNodeError(
        f"unsupported node compression {name}; supported types: NONE, ZLIB. Set"
        " managedLedgerInfoCompressionType and managedCursorInfoCompressionType of Pulsar's"
        " broker.conf to one of these, then open the topic once in Pulsar"
    )


def _decompress(data: bytes) -> bytes:
    stream = zlib.decompressobj()
    try:
        body = stream.decompress(data, _LARGEST_BODY + 1)
    except zlib.error as error:
        raise DamagedNodeError(f"a compressed node cannot be read: {error}") from None
    # If a truncated body were decoded as a shorter chain, its owner would lose ledgers.
    if not stream.eof or len(body) > _LARGEST_BODY:
        raise DamagedNodeError(
            "a compressed node cannot be read: it is truncated, or its body is larger than"
            f" {_LARGEST_BODY} bytes"
        )
    return body


def parse_stored(kind: type[_Stored], data: bytes, description: str) -> _Stored:
    try:
        stored = kind.FromString(data)
    except DecodeError as error:
        raise DamagedNodeError(f"{description} cannot be read: {error}") from None
    if not stored.IsInitialized():
        raise DamagedNodeError(f"{description} cannot be read: a required field is missing")
    return stored
