"""Fuzz a broker's binary connections and the bodies of HTTP requests to the broker."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from labkit.system.broker.protocol.frames import encode_frame
from labkit.system.model.proto.pulsar_pb2 import BaseCommand
from labkit.worlds.live.admin.call import decode_body
from labkit.worlds.live.net import split_frames
from tests.fuzz.harness import Target
from tests.system.broker.held import TOPIC, FrameClient, held_broker, message

ELSEWHERE = "persistent://tenant/namespace/elsewhere"
SETTLED_AFTER_TURNS = 20

REQUESTS: tuple[tuple[BaseCommand.Type, dict[str, Any]], ...] = (
    (BaseCommand.CONNECT, {"client_version": "fuzz", "protocol_version": 20}),
    (BaseCommand.PARTITIONED_METADATA, {"topic": TOPIC, "request_id": 1}),
    (BaseCommand.LOOKUP, {"topic": TOPIC, "request_id": 2, "authoritative": True}),
    (
        BaseCommand.PRODUCER,
        {"topic": TOPIC, "producer_id": 1, "request_id": 3, "producer_name": "p"},
    ),
    (BaseCommand.SEND, {"producer_id": 1, "sequence_id": 0}),
    (BaseCommand.CLOSE_PRODUCER, {"producer_id": 1, "request_id": 4}),
    (
        BaseCommand.SUBSCRIBE,
        {
            "topic": ELSEWHERE,
            "subscription": "sub",
            "subType": 3,
            "consumer_id": 1,
            "request_id": 5,
            "keySharedMeta": {"keySharedMode": 1, "hashRanges": [{"start": 0, "end": 9}]},
        },
    ),
    (BaseCommand.FLOW, {"consumer_id": 1, "messagePermits": 1000}),
    (
        BaseCommand.ACK,
        {
            "consumer_id": 1,
            "ack_type": 0,
            "message_id": [{"ledgerId": 1, "entryId": 2, "ack_set": [-1]}],
            "request_id": 6,
        },
    ),
    (BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES, {"consumer_id": 1}),
    (BaseCommand.SEEK, {"consumer_id": 1, "request_id": 7, "message_publish_time": 1}),
    (BaseCommand.GET_LAST_MESSAGE_ID, {"consumer_id": 1, "request_id": 8}),
    (BaseCommand.UNSUBSCRIBE, {"consumer_id": 1, "request_id": 9}),
    (BaseCommand.CLOSE_CONSUMER, {"consumer_id": 1, "request_id": 10}),
    (BaseCommand.GET_TOPICS_OF_NAMESPACE, {"namespace": "public/default", "request_id": 11}),
    (BaseCommand.GET_SCHEMA, {"topic": TOPIC, "request_id": 12, "schema_version": bytes(8)}),
    (
        BaseCommand.GET_OR_CREATE_SCHEMA,
        {
            "topic": TOPIC,
            "request_id": 13,
            "schema": {"name": "s", "type": 4, "schema_data": b'{"type":"string"}'},
        },
    ),
    (BaseCommand.WATCH_TOPIC_LIST, {"request_id": 14}),
    (BaseCommand.PING, {}),
)
_FIELDS = {field.number: field.name for field in BaseCommand.DESCRIPTOR.fields}

BODIES = (
    b"4",
    json.dumps({"retentionTimeInMinutes": 60, "retentionSizeInMB": -1}).encode(),
    json.dumps({"type": "AVRO", "schema": '{"type": "string"}', "properties": {"a": "ä"}}).encode(),
    b'["produce", "consume", "\\ud834\\udd1e"]',
)


def _framed(kind: BaseCommand.Type, fields: dict[str, Any]) -> bytes:
    command = BaseCommand(type=kind, **{_FIELDS[kind]: fields})
    body = encode_frame(command, message() if kind == BaseCommand.SEND else b"")
    return len(body).to_bytes(4, "big") + body


def _conversations() -> tuple[bytes, ...]:
    """Return a conversation that contains all requests, and for each request a conversation that
    contains only CONNECT and the request.
    """
    frames = [_framed(*request) for request in REQUESTS]
    return b"".join(frames), *(frames[0] + frame for frame in frames[1:])


def _serve(data: bytes) -> None:
    """Serve a client that sends these bytes. Raises any exception that no handler expects."""
    try:
        bodies, _ = split_frames(data)
    except ValueError:
        return
    asyncio.run(_converse(bodies))


async def _converse(bodies: Sequence[bytes]) -> None:
    unforeseen: list[BaseException] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: unforeseen.append(context.get("exception") or RuntimeError(str(context)))
    )
    client = FrameClient(held_broker())
    for body in bodies:
        client.give(body)
        for _ in range(SETTLED_AFTER_TURNS):
            await asyncio.sleep(0)
    client.close()
    if unforeseen:
        raise unforeseen[0]


BROKER_TARGETS = (
    Target("a client's frames at a broker", _serve, _conversations()),
    Target("body of an HTTP request", decode_body, BODIES),
)
