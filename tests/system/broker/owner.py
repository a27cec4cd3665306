"""Find the broker that serves a topic."""

from contextlib import suppress

from labkit.system.broker.ownership import bundle_of, decode_owner
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.store import NoNodeError
from labkit.system.topic.names import full_name
from labkit.worlds.live.processes.cluster import LocalCluster


async def owner_of(cluster: LocalCluster, bookkeeper: BookKeeper, topic: str) -> str:
    """Return the name of the broker that serves the topic, or "" if there is none."""
    with suppress(NoNodeError):
        data, _ = await bookkeeper.store.get(bundle_of(full_name(topic)).path)
        owner, _ = decode_owner(data)
        for name in cluster.broker_names:
            if cluster.service_url_of(name) == owner.service_url:
                return name
    return ""
