"""Tests for the HTTP headers that contain a message's metadata."""

import json

from labkit.system.model.proto.pulsar_pb2 import MessageMetadata
from labkit.worlds.live.admin.messages import message_headers


def test_a_property_that_is_not_valid_utf8_is_shown_with_replacement_characters() -> None:
    written = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    written.properties.add(key="K", value="V")
    encoded = written.SerializeToString().replace(b"K", b"\xff").replace(b"V", b"\xfe")
    headers = dict(message_headers(MessageMetadata.FromString(encoded), (7, 3), 0))
    assert json.loads(headers["X-Pulsar-PROPERTY"]) == {"\ufffd": "\ufffd"}
