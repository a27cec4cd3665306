"""Test that every byte of a topic's entry has a name and that the selected message is marked."""

import pytest

from labkit.system.model.errors import (
    BKDigestMatchException,
    BKIncorrectParameterException,
    BKMetadataSerializationException,
)
from labkit.system.model.proto.pulsar_pb2 import (
    BrokerEntryMetadata,
    CompressionType,
    MessageMetadata,
)
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.views.xray.message_spans import MessageFrame, parse_message


def message(number: int) -> OutgoingMessage:
    return OutgoingMessage(b"payload %d" % number, f"key-{number}", 0, (("a", "b"),), number)


def batch_of(count: int) -> bytes:
    messages = [message(number) for number in range(count)]
    return encode_batch(messages[0], [encode_in_batch(m) for m in messages], "p", 1_700_000_000_000)


def check_all_named(frame: MessageFrame, payload: bytes) -> None:
    at = 0
    for span in frame.spans:
        assert span.offset == at
        at += span.size
    assert at == len(payload)


@pytest.mark.parametrize("index", [0, 1, 3])
def test_one_message_of_a_batch_is_named_and_the_others_are_runs(index: int) -> None:
    payload = batch_of(4)
    frame = parse_message(payload, index)
    check_all_named(frame, payload)
    own = payload[frame.offset : frame.offset + frame.size]
    assert own.endswith(b"payload %d" % index)
    assert own.count(b"payload") == 1
    assert frame.message_count == 4
    names = [span.name for span in frame.spans]
    others = [name for name in names if name.startswith("message") and "size" not in name]
    assert (
        others
        == {
            0: ["messages 1 to 3"],
            1: ["message 0", "messages 2 to 3"],
            3: ["messages 0 to 2"],
        }[index]
    )
    assert next(s.value for s in frame.spans if s.name == "num_messages_in_batch") == "4"


def test_a_batch_of_one_is_a_batch() -> None:
    frame = parse_message(batch_of(1), 0)
    assert frame.message_count == 1


def test_a_message_alone_is_all_of_the_payload() -> None:
    payload = encode_message(message(7), "producer", 1_700_000_000_000)
    frame = parse_message(payload, -1)
    check_all_named(frame, payload)
    assert frame.message_count == 0
    assert payload[frame.offset : frame.offset + frame.size] == b"payload 7"
    values = {span.name: span.value for span in frame.spans}
    assert values["producer_name"] == "producer"
    assert (values["sequence_id"], values["partition_key"]) == ("7", "key-7")
    assert values["magic"] == "0e01"


def test_the_brokers_part_in_front_is_named_too() -> None:
    head = BrokerEntryMetadata(broker_timestamp=5, index=9).SerializeToString()
    payload = b"\x0e\x02" + len(head).to_bytes(4, "big") + head + batch_of(2)
    frame = parse_message(payload, 1)
    check_all_named(frame, payload)
    assert next(s.value for s in frame.spans if s.name == "index") == "9"


def test_what_is_packed_is_one_run() -> None:
    metadata = MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        num_messages_in_batch=3,
        compression=CompressionType.LZ4,
    ).SerializeToString()
    payload = b"\x0e\x01" + bytes(4) + len(metadata).to_bytes(4, "big") + metadata + b"packed"
    frame = parse_message(payload, 2)
    assert frame.spans[-1].meaning == "3 messages in one batch, packed with LZ4"
    assert payload[frame.offset :] == b"packed"


@pytest.mark.parametrize(
    ("payload", "index", "reason"),
    [
        (batch_of(3), 3, "its batch contains messages 0 to 2"),
        (encode_message(message(0), "p", 1), 0, "its batch index is -1"),
    ],
)
def test_a_message_that_is_not_there_is_refused(payload: bytes, index: int, reason: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=reason):
        parse_message(payload, index)


def test_what_no_producer_made_is_refused() -> None:
    with pytest.raises(BKDigestMatchException, match="not a Pulsar message"):
        parse_message(b"cursor position", -1)


def test_a_truncated_entry_is_refused_at_every_byte() -> None:
    payload = batch_of(3)
    for size in range(len(payload)):
        with pytest.raises((BKDigestMatchException, BKMetadataSerializationException)):
            parse_message(payload[:size], 0)
