"""A client of a cluster, with this machine's TCP, clock and random numbers."""

import random
from collections.abc import Sequence

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import Placement
from labkit.system.metadata.store import MetadataStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import wall_clock_ms
from labkit.worlds.live.net import TcpNetwork


def at_random(bookies: Sequence[str], count: int) -> Sequence[str]:
    """Random placement: each ensemble has different bookies."""
    return random.sample(bookies, count)


def new_client(
    store: MetadataStore,
    recorder: Recorder,
    *,
    placement: Placement = at_random,
    config: ClientConfig | None = None,
) -> BookKeeper:
    """A client of the cluster whose metadata is in `store`; `recorder` takes its events."""
    return BookKeeper(
        store,
        TcpNetwork(),
        recorder,
        placement,
        lambda: random.getrandbits(63),
        wall_clock_ms,
        config,
    )
