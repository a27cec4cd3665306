"""Test what a bookie reports to its operator."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from labkit.system.bookie.disk_monitor import DiskConfig
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.metadata.cluster import init_cluster
from labkit.system.node.bookie import BookieConfig, BookieService
from labkit.system.node.ports import BookiePorts, ServerPorts
from tests.system.storage.support import open_store
from tests.worlds.sim.metadata_world import MetadataWorld, run_metadata_world

T = TypeVar("T")


def warnings_at_start(folder: Path, disk: DiskConfig, usage: float) -> list[str]:
    warnings: list[str] = []

    async def run_here(call: Callable[[], T], /) -> T:
        return call()

    async def start(world: MetadataWorld) -> None:
        metadata, store = await world.session("b"), open_store(folder)
        await init_cluster(metadata, "1")
        begin_session, new_client = partial(world.session, "b"), cast(Any, None)
        server = ServerPorts(
            "b", store.recorder, begin_session, new_client, random.randrange, lambda: 0
        )
        ports = BookiePorts(
            metadata,
            "1",
            [run_here],
            run_here,
            disk_usages=lambda: {"/l": usage},
            disk_space=lambda: (0, 0),
            warn=warnings.append,
        )
        config = BookieConfig(1000, GarbageConfig(), disk, None)
        await BookieService(store, config, server, ports).start([])

    run_metadata_world(start)
    return warnings


def test_a_bookie_that_starts_read_only_says_why(tmp_path: Path) -> None:
    forced = DiskConfig(force_read_only_bookie=True)
    assert warnings_at_start(tmp_path / "1", forced, 0.1) == [
        "b is read-only: forceReadOnlyBookie is set"
    ]
    assert warnings_at_start(tmp_path / "2", DiskConfig(), 0.96) == [
        "b is read-only: /l is 96% full"
    ]
