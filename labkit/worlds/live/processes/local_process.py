"""`labkit local`: runs a cluster until Ctrl-C, and reports each process that exits before then.

    labkit local --bookies 3 --brokers 1

In BookKeeper: `util/LocalBookKeeper.java`, the command `bookkeeper localbookie`.
"""

import asyncio
from collections.abc import Callable

from labkit.worlds.live.host.exit_codes import describe_exit
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.host.stop_signal import cancel_on_stop_signal
from labkit.worlds.live.processes.cluster import LocalCluster

_CHECK_INTERVAL_S = 0.5


async def run_local(
    cluster: LocalCluster, say: Callable[[str], None], warn: Callable[[str], None]
) -> None:
    """Run the cluster until a stop signal, which cancels the calling task.

    Calls `say` with the addresses of all servers once they accept clients. Calls `warn` with a line
    whenever one of them exits. Raises the same errors as `cluster.start`.
    """
    cancel_on_stop_signal()
    async with cluster:
        say(_addresses(cluster))
        await _watch(cluster, warn)


def _addresses(cluster: LocalCluster) -> str:
    lines = [f"ZooKeeper  {cluster.zookeeper}"]
    for name in cluster.bookie_names:
        ports, folder = cluster.ports_of(name), cluster.folder_of(name)
        lines.append(f"{name:<10} {LOOPBACK}:{ports['port']} process {ports['pid']} {folder}")
    lines += [
        f"{name:<10} {cluster.service_url_of(name)} {cluster.web_url_of(name)}"
        for name in cluster.broker_names
    ]
    accepting = f"{len(cluster.bookie_names)} bookies accept writes"
    return "\n".join((*lines, f"{accepting}. Press Ctrl-C to stop all servers."))


async def _watch(cluster: LocalCluster, warn: Callable[[str], None]) -> None:
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
                f"ZooKeeper has exited; its log is in {zookeeper.folder}. Without it, no ledger can"
                " be created or opened: stop this cluster and start it again"
            )
        await asyncio.sleep(_CHECK_INTERVAL_S)
