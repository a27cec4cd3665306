"""Tests for the encoding of a topic's entries against hand-built bytes."""

import struct
from typing import Any

import google_crc32c
import pytest

from labkit.system.model.errors import BKDigestMatchException, BKIncorrectParameterException
from labkit.system.model.message_id import MessageId
from labkit.system.model.proto.pulsar_pb2 import CompressionType, MessageMetadata
from labkit.system.topic.messages import (
    OutgoingMessage,
    decode_messages,
    decode_metadata,
    encode_batch,
    encode_in_batch,
    encode_message,
    has_valid_checksum,
    strip_broker_metadata,
)
from labkit.system.topic.producing.producer import java_string_hash
from tests.system.topic.support import field


def framed(metadata: bytes, payload: bytes) -> bytes:
    rest = struct.pack(">I", len(metadata)) + metadata + payload
    return struct.pack(">HI", 0x0E01, google_crc32c.value(rest)) + rest


def message(payload: bytes, sequence_id: int = 0, **given: Any) -> OutgoingMessage:
    return OutgoingMessage(
        payload,
        given.get("key", ""),
        given.get("event_time_ms", 0),
        given.get("properties", ()),
        sequence_id,
    )


def test_metadata_are_found_behind_a_brokers_part_and_without_a_checksum() -> None:
    sent = encode_message(message(b"hi", 5), "p", 1)
    stamped = struct.pack(">HI", 0x0E02, 3) + b"abc" + sent
    assert strip_broker_metadata(sent) == strip_broker_metadata(stamped) == sent
    for data in (sent, stamped, sent[6:], stamped[:9] + sent[6:]):
        assert decode_metadata(data).sequence_id == 5
    for data in (b"", b"\x0e", b"\x0e\x01", b"\x0e\x02\xff\xff\xff\xff", sent[:12]):
        assert strip_broker_metadata(data) in (data, b"")
        with pytest.raises(BKDigestMatchException):
            decode_metadata(data)


def test_message_alone_is_magic_checksum_metadata_and_payload() -> None:
    full = message(b"hi", 5, key="JFK", event_time_ms=9, properties=(("a", "b"),))
    metadata = (
        field(1, "me")
        + field(2, 5)
        + field(3, 1000)
        + field(4, field(1, "a") + field(2, "b"))
        + field(6, "JFK")
        + field(12, 9)
    )
    assert encode_message(full, "me", 1000) == framed(metadata, b"hi")


def test_message_alone_without_key_and_times_carries_none() -> None:
    metadata = field(1, "me") + field(2, 0) + field(3, 1000)
    assert encode_message(message(b""), "me", 1000) == framed(metadata, b"")


def test_batch_is_a_run_of_sized_metadata_and_payloads() -> None:
    first, second = message(b"one", 7, key="k", event_time_ms=9), message(b"two!", 8)
    singles = [
        (field(2, "k") + field(3, 3) + field(5, 9) + field(8, 7), b"one"),
        (field(3, 4) + field(8, 8), b"two!"),
    ]
    body = b"".join(
        struct.pack(">I", len(single)) + single + payload for single, payload in singles
    )
    metadata = field(1, "me") + field(2, 7) + field(3, 1000) + field(6, "k") + field(11, 2)
    parts = [encode_in_batch(first), encode_in_batch(second)]
    assert encode_batch(first, parts, "me", 1000) == framed(metadata, body)


def test_message_alone_has_batch_index_minus_one_and_a_batch_of_one_has_0() -> None:
    only = message(b"x", key="k", properties=(("a", "b"),))
    alone, batched = (
        encode_message(only, "me", 1000),
        encode_batch(only, [encode_in_batch(only)], "me", 1000),
    )
    for data, batch_index in ((alone, -1), (batched, 0)):
        (found,) = decode_messages(data, 3, 4, 2)
        assert found.message_id == MessageId(3, 4, 2, batch_index)
        assert (found.payload, found.key, found.properties) == (b"x", "k", {"a": "b"})
        assert (found.batch_size, found.publish_time_ms, found.producer_name) == (1, 1000, "me")


def test_messages_of_a_batch_share_their_entry_and_count_from_0() -> None:
    sent = [message(b"%d" % n, n, event_time_ms=n) for n in range(3)]
    data = encode_batch(sent[0], [encode_in_batch(each) for each in sent], "me", 1)
    found = decode_messages(data, 3, 4, -1)
    assert [str(each.message_id) for each in found] == ["3:4:-1:0", "3:4:-1:1", "3:4:-1:2"]
    assert [(each.payload, each.sequence_id, each.event_time_ms) for each in found] == [
        (b"0", 0, 0),
        (b"1", 1, 1),
        (b"2", 2, 2),
    ]


def test_a_compressed_entry_is_rejected_with_the_name_of_its_compression() -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=0, compression=CompressionType.ZSTD
    )
    with pytest.raises(BKIncorrectParameterException, match="compressed with ZSTD; labkit's own"):
        decode_messages(framed(metadata.SerializeToString(), b"bytes"), 7, 3, 0)


@pytest.mark.parametrize("payload", [b"", b"\x00\x00", b"\x00\x00\x00\x02\xff\xff"])
def test_a_malformed_batch_is_not_a_message(payload: bytes) -> None:
    metadata = MessageMetadata(
        producer_name="p", sequence_id=0, publish_time=0, num_messages_in_batch=1
    )
    with pytest.raises(BKDigestMatchException, match="is not a valid batch"):
        decode_messages(framed(metadata.SerializeToString(), payload), 7, 3, 0)


@pytest.mark.parametrize("metadata", [b"\xff\xff", b"\x0a\x01p"])
def test_a_valid_checksum_does_not_make_metadata_valid(metadata: bytes) -> None:
    data = framed(metadata, b"payload")
    assert has_valid_checksum(data)
    with pytest.raises(BKDigestMatchException, match="entry 4 of ledger 3: the entry is not a me"):
        decode_messages(data, 3, 4, -1)
    rest = b"\x00\x00"
    with pytest.raises(BKDigestMatchException, match="entry 4 of ledger 3: the entry is not a me"):
        decode_messages(struct.pack(">HI", 0x0E01, google_crc32c.value(rest)) + rest, 3, 4, -1)


def test_text_that_is_not_valid_utf8_gets_replacement_characters() -> None:
    properties = field(4, field(1, b"a\xff") + field(2, b"\xfe"))
    metadata = field(1, b"p\xff") + field(2, 0) + field(3, 1) + properties + field(6, b"\xffk")
    [found] = decode_messages(framed(metadata, b"x"), 3, 4, -1)
    assert (found.producer_name, found.key) == ("p\ufffd", "\ufffdk")
    assert found.properties == {"a\ufffd": "\ufffd"}


def test_every_damaged_byte_is_noticed() -> None:
    data = encode_message(message(b"payload"), "me", 1000)
    assert has_valid_checksum(data)
    assert not has_valid_checksum(b"")
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x10
        assert not has_valid_checksum(bytes(damaged))
        with pytest.raises(BKDigestMatchException, match="entry 4 of ledger 3"):
            decode_messages(bytes(damaged), 3, 4, -1)


@pytest.mark.parametrize("size", range(12))
def test_truncated_entry_is_not_a_message(size: int) -> None:
    data = encode_message(message(b"payload"), "me", 1000)
    with pytest.raises(BKDigestMatchException):
        decode_messages(data[:size], 3, 4, -1)


@pytest.mark.parametrize(
    ("text", "java"),
    [
        ("a", 97),
        ("JFK", 73359),
        ("hello", 99162322),
        # The hash codes of these two strings are negative in Java; the sign bit is cleared.
        ("polygenelubricants", -2147483648 & 0x7FFFFFFF),
        ("aaaaaa", -1425372064 & 0x7FFFFFFF),
        # This character has two UTF-16 units, which Java hashes separately.
        ("\U0001f600", 31 * 0xD83D + 0xDE00),
    ],
)
def test_hash_of_a_key_is_that_of_java(text: str, java: int) -> None:
    assert java_string_hash(text) == java
