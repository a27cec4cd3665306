"""Decodes nodes that contain a JSON object, which Pulsar's brokers and tools may have written."""

import json
from typing import Any

from labkit.system.model.errors import BKMetadataSerializationException


def decode_json_object(data: bytes, description: str) -> dict[str, Any]:
    """Raise `BKMetadataSerializationException` if the data is not a JSON object."""
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError) as error:
        fields = error
    if not isinstance(fields, dict):
        raise BKMetadataSerializationException(f"{description} is not a JSON object: {fields}")
    return fields
