"""One cluster of processes for each notebook: a cell that is run again leaves none behind."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # A browser tab has lessons and no processes.
    from labkit.worlds.live.processes.cluster import LocalCluster

_started: "LocalCluster | None" = None


async def start(cluster: "LocalCluster") -> "LocalCluster":
    """Start the notebook's cluster; one that this kernel started before is stopped first.

    Raises what `LocalCluster.start` raises.
    """
    global _started
    before, _started = _started, cluster
    if before is not None:
        await before.stop()
    return await cluster.start()
