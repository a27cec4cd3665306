"""A partitioned topic's record in the metadata store, in Pulsar's format.

    {"partitions": 4, "deleted": false, "properties": {...}}

`deleted` is true while the topic is being deleted. While partitions are being added, a property
contains the target number of partitions, so that an interrupted change can be repeated. Unknown
fields are preserved.

In Pulsar: `common/partition/PartitionedTopicMetadata.java`, `NamespaceResources.java`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.system.metadata.json_node import decode_json_object
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import BKMetadataSerializationException
from labkit.system.topic.names import partitions_path

_GROWING_TO = "labkit.growingTo"


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """`growing_to` is the target number of partitions while some are being added, otherwise 0."""

    count: int
    is_being_deleted: bool = False
    growing_to: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All fields of the stored record, including unknown ones."""

    @property
    def max_count(self) -> int:
        """The largest number of partitions that may exist, including those being added."""
        return max(self.count, self.growing_to)

    def encode(self) -> bytes:
        fields = {**self.fields, "partitions": self.count}
        properties = {**(fields.get("properties") or {})}
        properties.pop(_GROWING_TO, None)
        if self.growing_to:
            properties[_GROWING_TO] = str(self.growing_to)
        fields.pop("deleted", None)
        if self.is_being_deleted:
            fields["deleted"] = True
        if properties or "properties" in fields:
            fields["properties"] = properties
        return json.dumps(fields).encode()


def decode_partitioned_topic(data: bytes) -> PartitionedTopic:
    """Raise `BKMetadataSerializationException` if the record is corrupt."""
    description = "the record of a partitioned topic"
    fields = decode_json_object(data, description)
    count = fields.get("partitions")
    if not isinstance(count, int):
        raise BKMetadataSerializationException(f"{description} has no number of partitions")
    growing_to = int((fields.get("properties") or {}).get(_GROWING_TO, 0))
    growing_to = growing_to if growing_to > count else 0
    return PartitionedTopic(count, bool(fields.get("deleted")), growing_to, fields)


async def read_partitioned_topic(store: MetadataStore, name: str) -> tuple[PartitionedTopic, int]:
    """Return the record and the version of its node, or raise `NoNodeError`."""
    data, version = await store.get(partitions_path(name))
    return decode_partitioned_topic(data), version
