"""Tests for the encoding of cursors: Pulsar's data can be read."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from labkit.system.model.proto.managed_ledger_pb2 import (
    LongListMap,
    ManagedCursorInfo,
    PositionInfo,
)
from labkit.system.topic.chain.formats import DamagedNodeError
from labkit.system.topic.cursors.acknowledged import CursorState, Range
from labkit.system.topic.cursors.formats import (
    IN_NODE,
    CursorNode,
    decode_cursor_node,
    decode_position,
    encode_cursor_node,
    encode_position,
    from_java_longs,
    to_java_longs,
)
from tests.system.topic.chain.test_formats import DAMAGED

STATE = CursorState(
    (3, -1),
    (Range((3, 1), (3, 4)), Range((5, -1), (5, 0))),
    (((5, 2), 0b1011),),
    (("producer-1", 17), ("producer-2", 2**40)),
)


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


@pytest.mark.parametrize(
    ("decode", "what", "lacking"),
    [
        (decode_cursor_node, "the node of a cursor", b"\x20\x01"),
        (decode_position, "the entry of a cursor", b"\x10\x01"),
    ],
    ids=["a property without a name", "a position without a ledger"],
)
def test_a_node_or_entry_that_lacks_a_required_field_is_damaged(
    decode: Callable[[bytes], object], what: str, lacking: bytes
) -> None:
    with pytest.raises(
        DamagedNodeError, match=f"{what} cannot be read: a required field is missing"
    ):
        decode(lacking)


@pytest.mark.parametrize("decode", [decode_cursor_node, decode_position])
@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_cursor_is_reported(decode: Callable[[bytes], object], data: bytes) -> None:
    with pytest.raises(DamagedNodeError):
        decode(data)
