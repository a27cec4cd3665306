"""Tests for Key_Shared: hashes, hash ranges, and that only one consumer at a time holds entries of
a key.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.broker.dispatch import hashes
from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.hashes import HASH_COUNT, hash_of_key, murmur3_32
from labkit.system.broker.dispatch.key_shared import (
    AutoSplitRanges,
    KeySharedSelector,
    StickyRanges,
    sticky_key,
)
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from tests.system.broker.in_memory import Client


def consumers(count: int) -> list[Consumer]:
    return [Client().consumer(f"c{number}") for number in range(count)]


@pytest.mark.promise("Keys are hashed as Pulsar hashes them")
@pytest.mark.parametrize(
    ("data", "expected"),
    # Published test vectors of MurmurHash3_x86_32 with seed 0.
    [
        (b"", 0),
        (b"test", 0xBA6BD213),
        (b"Hello, world!", 0xC0363E43),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_murmur3_gives_the_published_values(data: bytes, expected: int) -> None:
    assert murmur3_32(data) == expected


@given(st.binary(max_size=40))
def test_a_hash_lies_on_the_ring(key: bytes) -> None:
    assert 0 <= hash_of_key(key) < HASH_COUNT


def test_a_key_of_megabytes_takes_as_long_as_its_beginning_and_is_not_kept() -> None:
    before = hashes.cached_hash.cache_info().currsize
    long = bytes(range(256)) * 20_000
    assert hash_of_key(long) == hash_of_key(long[: 16 * 1024]) != hash_of_key(long[1:])
    assert hashes.cached_hash.cache_info().currsize == before


@pytest.mark.parametrize("is_base64", [False, True])
@pytest.mark.parametrize("key", [b"\xff\xfe", "ä".encode(), b"=", b""])
def test_any_bytes_are_a_key(key: bytes, is_base64: bool) -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=7, publish_time=1, partition_key="0123456789"[: len(key)]
    )
    data = metadata.SerializeToString().replace(b"0123456789"[: len(key)], key)
    metadata = MessageMetadata.FromString(data)
    metadata.partition_key_b64_encoded = is_base64
    assert isinstance(sticky_key(metadata), bytes)


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"partition_key": "key", "ordering_key": b"order"}, b"order"),
        ({"partition_key": "key"}, b"key"),
        ({"partition_key": "AP8=", "partition_key_b64_encoded": True}, b"\x00\xff"),
        # Messages without a key are spread over the consumers.
        ({}, b"p-7"),
        ({"sequence_id": 8}, b"p-8"),
    ],
)
def test_the_ordering_key_precedes_key_and_sequence_id(fields: dict[str, Any], key: bytes) -> None:
    named = {"producer_name": "p", "sequence_id": 7, "publish_time": 1, **fields}
    assert sticky_key(MessageMetadata(**named)) == key


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(0, HASH_COUNT - 1))
def test_split_ranges_always_cover_the_ring(changes: list[int], key_hash: int) -> None:
    ranges, there = AutoSplitRanges(), dict.fromkeys(consumers(10), False)
    everybody = list(there)
    for number in changes:
        consumer = everybody[number]
        (ranges.remove if there[consumer] else ranges.add)(consumer)
        there[consumer] = not there[consumer]
        owner = ranges.owner_of(key_hash)
        assert there[owner] if owner is not None else not any(there.values())


def test_two_consumers_share_the_ring_in_halves() -> None:
    ranges, (first, second) = AutoSplitRanges(), consumers(2)
    ranges.add(first)
    ranges.add(second)
    owned = [ranges.owner_of(key_hash) for key_hash in range(HASH_COUNT)]
    assert owned.count(first) == owned.count(second) == HASH_COUNT // 2
    assert sum(a is not b for a, b in pairwise(owned)) == 1


def test_a_new_consumer_takes_half_of_the_largest_range_and_leaves_the_others_alone() -> None:
    ranges, (a, b, c) = AutoSplitRanges(), consumers(3)
    ranges.add(a)
    ranges.add(b)
    before = [ranges.owner_of(key_hash) for key_hash in range(0, HASH_COUNT, 64)]
    ranges.add(c)
    after = [ranges.owner_of(key_hash) for key_hash in range(0, HASH_COUNT, 64)]
    moved = [(old, new) for old, new in zip(before, after, strict=True) if old is not new]
    assert {new for _, new in moved} == {c}
    assert len({old for old, _ in moved}) == 1
    assert len(moved) == len(after) // 4


@pytest.mark.promise("Sticky key ranges belong to the consumer that claims them")
def test_sticky_ranges_are_their_owners_and_gaps_are_nobodys() -> None:
    ranges = StickyRanges()
    low = Client().consumer("low", ranges=[(0, 99), (200, 299)])
    ranges.add(low)
    assert ranges.owner_of(99) is low
    assert ranges.owner_of(100) is None
    assert ranges.owner_of(250) is low
    high = Client().consumer("high", ranges=[(100, 199)])
    ranges.add(high)
    ranges.remove(low)
    assert (ranges.owner_of(99), ranges.owner_of(100)) == (None, high)


@pytest.mark.parametrize("taken", [[(50, 60)], [(99, 99)], [(0, 65535)], [(90, 120)]])
def test_sticky_ranges_that_overlap_are_rejected(taken: list[tuple[int, int]]) -> None:
    ranges = StickyRanges()
    ranges.add(Client().consumer("one", ranges=[(0, 99)]))
    with pytest.raises(BrokerError, match="overlap"):
        ranges.add(Client().consumer("two", ranges=taken))


@pytest.mark.parametrize("wanted", [[], [(5, 4)], [(-1, 4)], [(0, 65536)]])
def test_invalid_sticky_ranges_are_rejected(wanted: list[tuple[int, int]]) -> None:
    with pytest.raises(BrokerError, match="hash range"):
        StickyRanges().add(Client().consumer(ranges=wanted))


def test_a_moved_hash_does_not_wait_where_order_is_not_wanted() -> None:
    choice, (first, second) = KeySharedSelector(AutoSplitRanges(), keeps_order=False), consumers(2)
    choice.add(first)
    choice.entry_sent(first, 0)
    choice.add(second)
    assert choice.choose(0) is second
