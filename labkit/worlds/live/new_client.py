"""Creates BookKeeper clients that use this machine's TCP, clock and random numbers."""

import random
from collections.abc import Sequence

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import Placement
from labkit.system.metadata.store import MetadataStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import wall_clock_ms
from labkit.worlds.live.net import TcpNetwork


def random_bookies(bookies: Sequence[str], count: int) -> Sequence[str]:
    return random.sample(bookies, count)


def new_client(
    store: MetadataStore,
    recorder: Recorder,
    *,
    placement: Placement = random_bookies,
    config: ClientConfig | None = None,
) -> BookKeeper:
    """Return a client of the cluster with metadata in `store`. `recorder` receives its events."""
    return BookKeeper(
        store,
        TcpNetwork(),
        recorder,
        placement,
        lambda: random.getrandbits(63),
        wall_clock_ms,
        config,
    )
