"""Ensures that a notebook has at most one cluster of processes, even if its start cell is run
repeatedly.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Lessons also run in a browser tab, which cannot start processes.
    from labkit.worlds.live.processes.cluster import LocalCluster

_started: "LocalCluster | None" = None


async def start(cluster: "LocalCluster") -> "LocalCluster":
    """Stop any cluster that this kernel started earlier, and start a new one.

    Raises the same errors as `LocalCluster.start`.
    """
    global _started
    before, _started = _started, cluster
    if before is not None:
        await before.stop()
    return await cluster.start()
