"""Reads the rack of each bookie from a node that operators edit with Pulsar's tools.

    /bookies    {"group": {"10.0.0.1:3181": {"rack": "/rack1", "hostname": "b0"}, ...}, ...}

`pulsar-admin bookies set-bookie-rack` writes this node. labkit ignores groups and host names.

In Pulsar: `bookie/rackawareness/BookieRackAffinityMapping.java`.
"""

import json

from labkit.system.metadata.store import MetadataStore, NoNodeError
from labkit.system.model.errors import BKMetadataSerializationException

RACKS = "/bookies"
DEFAULT_RACK = "/default-rack"
"""The rack of a bookie that is not listed."""


async def read_racks(store: MetadataStore) -> dict[str, str]:
    """Return the rack of each listed bookie. Raises `BKMetadataSerializationException`."""
    try:
        data, _ = await store.get(RACKS)
    except NoNodeError:
        return {}
    return decode_racks(data)


def decode_racks(data: bytes) -> dict[str, str]:
    racks: dict[str, str] = {}
    try:
        for bookies in json.loads(data or b"{}").values():
            for bookie, where in bookies.items():
                rack = where.get("rack") or ""
                if name := rack.strip("/ "):
                    racks[bookie] = f"/{name}"
    except (ValueError, RecursionError, AttributeError) as error:
        raise BKMetadataSerializationException(
            f'{RACKS} must be JSON, {{"group": {{"bookie id": {{"rack": "/name"}}}}}}: {error}'
        ) from None
    return racks
