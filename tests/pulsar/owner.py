"""Which broker of a cluster serves a topic."""

from contextlib import suppress

from labkit.client.bookkeeper import BookKeeper
from labkit.live.cluster import LocalCluster
from labkit.metadata.store import NoNodeError
from labkit.topic.names import full_name
from labkit.topic.ownership import bundle_of, decode_owner


async def owner_of(cluster: LocalCluster, bookkeeper: BookKeeper, topic: str) -> str:
    """Its name; empty if nobody serves the topic."""
    with suppress(NoNodeError):
        data, _ = await bookkeeper.store.get(bundle_of(full_name(topic)).path)
        owner, _ = decode_owner(data)
        for name in cluster.broker_names:
            if cluster.service_url_of(name) == owner.service_url:
                return name
    return ""
