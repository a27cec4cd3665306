"""A partitioned topic's record in the metadata store, as Pulsar keeps it.

    {"partitions": 4, "deleted": false, "properties": {...}}

`deleted` is true while the topic is being deleted.  While it grows, a property has the number of
partitions that it is growing to, so that a growth that was interrupted is repeated.  Other fields
are kept.

In Pulsar: `common/partition/PartitionedTopicMetadata.java`, `NamespaceResources.java`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from labkit.system.metadata.store import MetadataStore
from labkit.system.topic.names import partitions_path

_GROWING_TO = "labkit.growingTo"


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    """How many partitions a topic has; `growing_to` is 0 unless a growth is under way."""

    count: int
    is_being_deleted: bool = False
    growing_to: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    """All fields as they are stored."""

    @property
    def most(self) -> int:
        """How many partitions may be stored, including those of a growth under way."""
        return max(self.count, self.growing_to)

    def encode(self) -> bytes:
        """Return the content of the node."""
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
    """The inverse of `PartitionedTopic.encode`."""
    fields = json.loads(data)
    count = fields["partitions"]
    growing_to = int((fields.get("properties") or {}).get(_GROWING_TO, 0))
    return PartitionedTopic(
        count,
        bool(fields.get("deleted")),
        growing_to if growing_to > count else 0,
        fields,
    )


async def read_partitioned_topic(store: MetadataStore, name: str) -> tuple[PartitionedTopic, int]:
    """Return the record of a topic, by its full name, and its node's version.

    Raises `NoNodeError`.
    """
    data, version = await store.get(partitions_path(name))
    return decode_partitioned_topic(data), version
