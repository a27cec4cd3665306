"""Tests for the encoding of chains and cursors: Pulsar's data can be read, and fields that only
Pulsar uses are preserved.
"""

import struct
import zlib
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labkit.system.metadata.store import MAX_NODE_BYTES
from labkit.system.model.proto.managed_ledger_pb2 import (
    LongListMap,
    ManagedCursorInfo,
    ManagedLedgerInfo,
    ManagedLedgerInfoMetadata,
    PositionInfo,
)
from labkit.system.topic.chain.acknowledged import CursorState, Range
from labkit.system.topic.chain.chain import LedgerInfo
from labkit.system.topic.chain.formats import (
    IN_NODE,
    CursorNode,
    DamagedNodeError,
    decode_chain,
    decode_cursor_node,
    decode_position,
    decode_properties,
    decode_terminated,
    decompress_node,
    encode_chain,
    encode_cursor_node,
    encode_position,
    from_java_longs,
    to_java_longs,
    with_property,
    with_terminated,
)

LINKS = [LedgerInfo(3, 7, 1000, 1_700_000_000_000), LedgerInfo(5)]
STATE = CursorState(
    (3, -1),
    (Range((3, 1), (3, 4)), Range((5, -1), (5, 0))),
    (((5, 2), 0b1011),),
    (("producer-1", 17), ("producer-2", 2**40)),
)


def wrapped(kind: str, body: bytes, size: int = 0) -> bytes:
    head = ManagedLedgerInfoMetadata(compressionType=kind, uncompressedSize=size)
    encoded = head.SerializeToString()
    return struct.pack(">HI", 0x4778, len(encoded)) + encoded + body


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


def test_cursor_is_in_its_node_or_in_its_ledger() -> None:
    node = CursorNode(IN_NODE, STATE, (("filter", "a"),))
    data = encode_cursor_node(node)
    # Field 1, cursorsLedgerId, contains -1, which is encoded in ten bytes.
    assert data.startswith(b"\x08" + b"\xff" * 9 + b"\x01")
    assert decode_cursor_node(data) == node
    elsewhere = decode_cursor_node(encode_cursor_node(CursorNode(12, STATE)))
    assert elsewhere.ledger_id == 12
    # The node holds a snapshot of the mark-delete position and its properties.
    assert elsewhere.state == CursorState(STATE.mark_delete, properties=STATE.properties)
    assert [decode_position(each) for each in encode_position(STATE)] == [STATE]


def test_node_of_a_cursor_that_only_names_its_ledger_is_read() -> None:
    node = decode_cursor_node(ManagedCursorInfo(cursorsLedgerId=4).SerializeToString())
    assert node.ledger_id == 4


def test_ranges_are_read_from_bits_too() -> None:
    bits = 0b111 << 62 | 0b1101 | 1 << 200
    info = PositionInfo(ledgerId=1, entryId=1)
    info.individualDeletedMessageRanges.append(LongListMap(key=9, values=to_java_longs(bits)))
    assert decode_position(info.SerializeToString()).ranges == (
        Range((9, -1), (9, 0)),
        Range((9, 1), (9, 3)),
        Range((9, 61), (9, 64)),
        Range((9, 199), (9, 200)),
    )


def test_range_from_an_earlier_ledger_says_nothing_of_that() -> None:
    info = PositionInfo(ledgerId=1, entryId=1)
    stored = info.individualDeletedMessages.add()
    stored.lowerEndpoint.ledgerId, stored.lowerEndpoint.entryId = 3, 6
    stored.upperEndpoint.ledgerId, stored.upperEndpoint.entryId = 5, 2
    assert decode_position(info.SerializeToString()).ranges == (Range((5, -1), (5, 2)),)


@given(st.integers(0, 2**200))
@example(1 << 62)
@example(1 << 63)
def test_bit_sets_are_javas_words(bits: int) -> None:
    words = to_java_longs(bits)
    assert all(-(2**63) <= word < 2**63 for word in words)
    assert from_java_longs(words) == bits


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


def test_compressed_node_is_read_up_to_sixteen_megabytes_and_refused_above() -> None:
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


@pytest.mark.parametrize(
    ("decode", "what"),
    [
        (decode_chain, "a chain of ledgers"),
        (decode_cursor_node, "the node of a cursor"),
        (decode_position, "the entry of a cursor"),
    ],
)
def test_what_lacks_a_field_that_must_be_there_is_damaged(
    decode: Callable[[bytes], object], what: str
) -> None:
    # These contain an empty ledger, an empty property and a position without a ledger.
    bodies: dict[object, bytes] = {decode_chain: b"\x0a\x00", decode_position: b"\x10\x01"}
    lacking = bodies.get(decode, b"\x20\x01")
    with pytest.raises(
        DamagedNodeError, match=f"{what} cannot be read: a required field is missing"
    ):
        decode(lacking)


@pytest.mark.parametrize("name", ["LZ4", "ZSTD", "SNAPPY"])
def test_unknown_compression_is_named_with_the_key_to_set(name: str) -> None:
    with pytest.raises(DamagedNodeError, match=f"{name}.*managedLedgerInfoCompressionType"):
        decode_chain(wrapped(name, b"?"))


@pytest.mark.parametrize("decode", [decode_chain, decode_cursor_node, decode_position])
@pytest.mark.parametrize(
    "data", [b"\x0a\x05", b"\xff" * 9, struct.pack(">HI", 0x4778, 99), wrapped("ZLIB", b"no zlib")]
)
def test_damaged_bytes_are_reported_as_such(decode: object, data: bytes) -> None:
    assert callable(decode)
    with pytest.raises(DamagedNodeError):
        decode(data)
