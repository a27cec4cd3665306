"""A cluster as a process, until Ctrl-C; it reports each part that ends before.

    labkit local --bookies 3 --brokers 1

In BookKeeper: `util/LocalBookKeeper.java`, the command `bookkeeper localbookie`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from labkit.worlds.live.host.exit_codes import describe_exit
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal
from labkit.worlds.live.net import LOOPBACK
from labkit.worlds.live.processes.cluster import LocalCluster

_LOOK_INTERVAL_S = 0.5


class LocalOptions(Protocol):
    """The options of the command line."""

    bookies: int
    brokers: int
    data: Path | None
    zookeeper: str


async def run_local(
    options: LocalOptions, say: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    """Run a cluster until SIGTERM, which cancels it.

    Calls `say` with the addresses of its parts once all of them serve, and `warn` with a line when
    one of them has ended.  Raises what `LocalCluster` raises.
    """
    cluster = LocalCluster(
        options.bookies,
        zookeeper=options.zookeeper,
        folder=options.data,
        traced=False,
        autorecovery={},
        brokers=options.brokers,
    )
    cancel_on_stop_signal()
    async with cluster:
        say("\n".join(_addresses(cluster)))
        await _watch(cluster, warn)


def _addresses(cluster: LocalCluster) -> list[str]:
    """A line for each part, and one that says how to end them."""
    return [
        f"ZooKeeper  {cluster.zookeeper}",
        *(_bookie_address(cluster, name) for name in cluster.bookie_names),
        *(
            f"{name:<10} {cluster.service_url_of(name)} {cluster.web_url_of(name)}"
            for name in cluster.broker_names
        ),
        f"{len(cluster.bookie_names)} bookies take writes. Ctrl-C ends them all.",
    ]


def _bookie_address(cluster: LocalCluster, name: str) -> str:
    at = cluster.ports_of(name)
    folder = cluster.folder_of(name)
    return f"{name:<10} {LOOPBACK}:{at['port']} process {at['pid']} {folder}"


async def _watch(cluster: LocalCluster, warn: Callable[[str], None]) -> None:
    """Warn of each part that ends; a part that has ended is not started again."""
    zookeeper = cluster.embedded_zookeeper
    up = [*cluster.bookie_names, *cluster.broker_names]
    zookeeper_was_up = zookeeper.is_up
    while True:
        for name in list(up):
            if (code := cluster.exit_code_of(name)) is not None:
                up.remove(name)
                warn(f"{name} {describe_exit(code)}; its log is in {cluster.folder_of(name)}")
        if zookeeper_was_up and not zookeeper.is_up:
            zookeeper_was_up = False
            warn(
                f"ZooKeeper has ended; its log is in {zookeeper.folder}. Without it no ledger can"
                " be created or opened: end this cluster, and start it again"
            )
        await asyncio.sleep(_LOOK_INTERVAL_S)
