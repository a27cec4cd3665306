"""Tests for the encoding of chains: Pulsar's data can be read, and fields that only
Pulsar uses are preserved.
"""

import struct
import zlib
from collections.abc import Callable

import pytest

from labkit.system.metadata.store import MAX_NODE_BYTES
from labkit.system.model.proto.managed_ledger_pb2 import (
    ManagedLedgerInfo,
    ManagedLedgerInfoMetadata,
)
from labkit.system.topic.chain.formats import (
    DamagedNodeError,
    decode_chain,
    decode_properties,
    decode_terminated,
    decompress_node,
    encode_chain,
    with_property,
    with_terminated,
)
from labkit.system.topic.chain.ledger_chain import LedgerInfo

LINKS = [LedgerInfo(3, 7, 1000, 1_700_000_000_000), LedgerInfo(5)]


def wrapped(kind: str, body: bytes, size: int = 0) -> bytes:
    head = ManagedLedgerInfoMetadata(compressionType=kind, uncompressedSize=size)
    encoded = head.SerializeToString()
    return struct.pack(">HI", 0x4778, len(encoded)) + encoded + body


DAMAGED = [
    b"\x0a\x05",
    b"\xff" * 9,
    struct.pack(">HI", 0x4778, 99),
    wrapped("ZLIB", b"no zlib"),
]
"""Bytes that are neither a node of a chain nor a node or an entry of a cursor."""


def test_open_ledger_has_no_counts_and_time_0() -> None:
    data = encode_chain(LINKS)
    assert data.endswith(bytes([0x0A, 4, 0x08, 5, 0x20, 0]))
    assert decode_chain(data) == LINKS


def test_what_another_software_says_of_a_chain_is_kept() -> None:
    info = ManagedLedgerInfo.FromString(encode_chain(LINKS))
    info.ledgerInfo[0].offloadContext.uidMsb = 77
    info.properties.add(key="owner", value="somebody")
    info.terminatedPosition.ledgerId, info.terminatedPosition.entryId = 3, 6
    changed = [LINKS[0], LedgerInfo(5, 2, 20, 1_700_000_000_001), LedgerInfo(6)]
    found = ManagedLedgerInfo.FromString(encode_chain(changed, info.SerializeToString()))
    assert decode_chain(found.SerializeToString()) == changed
    assert found.ledgerInfo[0].offloadContext.uidMsb == 77
    assert [(p.key, p.value) for p in found.properties] == [("owner", "somebody")]
    assert found.terminatedPosition.entryId == 6
    shorter = encode_chain(changed[1:], found.SerializeToString())
    assert decode_chain(shorter) == changed[1:]


def test_compressed_nodes_are_read_where_python_can() -> None:
    body = encode_chain(LINKS)
    assert decode_chain(wrapped("NONE", body, len(body))) == LINKS
    assert decode_chain(wrapped("ZLIB", zlib.compress(body))) == LINKS
    assert decode_chain(encode_chain(LINKS, wrapped("NONE", body))) == LINKS


def test_compressed_node_of_which_a_part_is_missing_is_not_a_shorter_chain() -> None:
    body = encode_chain([LedgerInfo(number, 7, 100, 5) for number in range(100)])
    whole = zlib.compress(body)
    for size in range(len(whole)):
        with pytest.raises(DamagedNodeError, match="a compressed node cannot be read"):
            decode_chain(wrapped("ZLIB", whole[:size]))


def test_compressed_node_is_read_up_to_sixteen_megabytes_and_rejected_above() -> None:
    largest = 16 * 1024**2
    assert decompress_node(wrapped("ZLIB", zlib.compress(bytes(largest)))) == bytes(largest)
    for size in (largest + 1, largest + 2, 2 * largest):
        with pytest.raises(DamagedNodeError, match=f"larger than {largest} bytes"):
            decompress_node(wrapped("ZLIB", zlib.compress(bytes(size))))


def test_head_of_a_compressed_node_alone_is_taken_for_a_plain_one() -> None:
    for size in range(6):
        data = wrapped("NONE", b"body")[:size]
        assert decompress_node(data) == data
    assert decompress_node(wrapped("NONE", b"")) == b""


def test_chain_too_large_for_a_node_is_compressed_and_read_again() -> None:
    links = [
        LedgerInfo(n, n % 50_000, n * 997 % 2**31, 1_700_000_000_000 + n) for n in range(50_000)
    ]
    data = with_property(encode_chain(links), "a", "1")
    assert len(data) < MAX_NODE_BYTES
    assert decompress_node(data) != data
    assert (decode_chain(data), decode_properties(data)) == (links, {"a": "1"})
    # The node is stored uncompressed again as soon as it is short enough.
    shorter = encode_chain(links[:10], data)
    assert decompress_node(shorter) == shorter
    assert decode_properties(with_property(shorter, "a", None)) == {}


def test_a_large_chain_stays_compressed_when_it_is_terminated() -> None:
    links = [LedgerInfo(ledger_id, 1, 1, 1) for ledger_id in range(50_000)]
    data = encode_chain(links)
    assert len(with_terminated(data, (3, 6))) < len(data) + 100
    assert decode_chain(with_terminated(data, (3, 6))) == links


def test_terminated_chain_keeps_everything_else_of_its_node() -> None:
    data = with_property(encode_chain(LINKS), "a", "1")
    assert decode_terminated(data) is None
    terminated = with_terminated(data, (3, 6))
    assert decode_terminated(terminated) == (3, 6)
    assert decode_chain(terminated) == LINKS
    assert decode_properties(terminated) == {"a": "1"}
    assert decode_terminated(encode_chain(LINKS[:1], terminated)) == (3, 6)


@pytest.mark.parametrize("decode", [decode_properties, lambda d: with_property(d, "a", "1")])
def test_properties_of_a_damaged_chain_are_not_none(decode: Callable[[bytes], object]) -> None:
    with pytest.raises(DamagedNodeError, match="a chain of ledgers cannot be read"):
        decode(b"\x0a\x05")


@pytest.mark.parametrize("name", ["LZ4", "ZSTD", "SNAPPY"])
def test_unknown_compression_is_named_with_the_key_to_set(name: str) -> None:
    with pytest.raises(DamagedNodeError, match=f"{name}.*managedLedgerInfoCompressionType"):
        decode_chain(wrapped(name, b"?"))


def test_a_chain_that_lacks_a_required_field_is_damaged() -> None:
    with pytest.raises(
        DamagedNodeError, match="a chain of ledgers cannot be read: a required field is missing"
    ):
        decode_chain(b"\x0a\x00")  # This contains an empty ledger.


@pytest.mark.parametrize("data", DAMAGED)
def test_damaged_bytes_of_a_chain_are_reported_as_such(data: bytes) -> None:
    with pytest.raises(DamagedNodeError):
        decode_chain(data)
