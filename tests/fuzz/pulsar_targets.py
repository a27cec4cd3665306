"""Fuzz the broker's decoders of client frames, stored entries and schemas."""

import json

from labkit.system.broker.dispatch.entry import read_entry
from labkit.system.broker.ownership import (
    BrokerAddress,
    decode_broker,
    decode_owner,
    encode_broker,
    encode_owner,
)
from labkit.system.broker.protocol.frames import body_of, decode_frame, encode_frame
from labkit.system.broker.schemas.avro_compatibility import parse_definition, read_incompatibility
from labkit.system.broker.schemas.types import join_key_value, split_key_value
from labkit.system.model.message_id import LATEST, MessageId
from labkit.system.model.proto.pulsar_pb2 import BaseCommand
from labkit.system.topic.chain.chain_reader import StoredEntry
from labkit.system.topic.messages import (
    OutgoingMessage,
    decode_metadata,
    encode_batch,
    encode_in_batch,
    encode_message,
    has_valid_checksum,
)
from tests.fuzz.harness import Target

MESSAGE = OutgoingMessage(b"payload", "key", 5, (("colour", "blue"),), 7)
SINGLE = encode_message(MESSAGE, "producer", 1)
BATCH = encode_batch(MESSAGE, [encode_in_batch(MESSAGE)] * 3, "producer", 1)
STAMPED = b"\x0e\x02" + (2).to_bytes(4, "big") + b"\x08\x05" + BATCH
BROKER = BrokerAddress("b:80", "pulsar://b:6650", web_url="http://b:80")
IDS = (
    LATEST.to_bytes(),
    MessageId(5, 6, 7, 8, batch_size=9).to_bytes(),
    MessageId(5, 6, 7, first_chunk=MessageId(5, 4, 7)).to_bytes(),
)
RECORD = json.dumps(
    {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "a", "type": ["null", "int"], "default": None},
            {"name": "b", "type": {"type": "array", "items": "string"}},
            {"name": "c", "type": {"type": "record", "name": "S", "fields": []}},
        ],
    }
).encode()


def _commands() -> tuple[bytes, ...]:
    send = BaseCommand(type=BaseCommand.SEND)
    send.send.producer_id, send.send.sequence_id = 1, 7
    flow = BaseCommand(type=BaseCommand.FLOW)
    flow.flow.consumer_id, flow.flow.messagePermits = 1, 1000
    return encode_frame(send, SINGLE), encode_frame(flow)


def _frame(data: bytes) -> object:
    command, message = decode_frame(data)
    return body_of(command), has_valid_checksum(message)


def _compared(data: bytes) -> object:
    known, read = parse_definition(RECORD), parse_definition(data)
    return read_incompatibility(known, read), read_incompatibility(read, known)


PULSAR_TARGETS = (
    Target("pulsar frame", _frame, _commands()),
    Target(
        "entry to deliver",
        lambda data: read_entry(StoredEntry((1, 0), data)),
        (SINGLE, BATCH, STAMPED),
    ),
    Target("metadata of an entry", decode_metadata, (SINGLE, BATCH, STAMPED)),
    Target("MessageID's bytes", MessageId.from_bytes, IDS),
    Target("owner of a bundle", decode_owner, (encode_owner(BROKER),)),
    Target("broker's address", lambda data: decode_broker("b:80", data), (encode_broker(BROKER),)),
    Target("schema of a record", _compared, (RECORD,)),
    Target("schema of keys and values", split_key_value, (join_key_value(b"a", RECORD),)),
)
