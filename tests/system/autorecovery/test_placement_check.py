"""Tests for the auditor's placement check and for the worker that moves the reported copies."""

import asyncio
import json
from dataclasses import replace

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.metadata.racks import RACKS
from labkit.system.metadata.store import ANY_VERSION, NodeExistsError
from labkit.system.trace.events import Segments
from tests.system.autorecovery.world import World, simulated

TOLD = AutoRecoveryConfig(
    min_num_racks_per_write_quorum=2, auditor_periodic_placement_policy_check_interval_s=100
)
MOVED = replace(TOLD, repaired_placement_policy_not_adhering_bookie_enabled=True)


async def put_racks(world: World, **racks: str) -> None:
    """Assign bookies to racks; each value lists the bookies' numbers."""
    bookies = {f"b{number}": {"rack": rack} for rack, some in racks.items() for number in some}
    await put(world, json.dumps({"default": bookies}).encode())


async def put(world: World, data: bytes) -> None:
    try:
        await world.store.create(RACKS, data)
    except NodeExistsError:
        await world.store.set(RACKS, data, ANY_VERSION)


async def ensembles(world: World, ledger_id: int) -> list[str]:
    return [" ".join(segment.ensemble) for segment in (await world.ledger(ledger_id)).segments]


B1_B2: Segments = ((0, ("b1", "b2")),)


def told(world: World) -> list[tuple[int, Segments]]:
    return [(row.ledger, row.segments) for row in world.events("placement.unmet")]


@pytest.mark.promise(
    "The auditor reports closed ledgers that violate rack placement, and their copies are "
    "moved if configured (`auditorPeriodicPlacementPolicyCheckInterval`, "
    "`repairedPlacementPolicyNotAdheringBookieEnabled`)"
)
@simulated
async def test_closed_ledgers_in_too_few_racks_are_reported(world: World) -> None:
    await put_racks(world, left="12", right="345")
    good = await world.closed_ledger(3, (3, 3, 2))
    bad = await world.closed_ledger(3, (2, 2, 2))
    writer = await world.client.create_ledger(2, 2, 2)
    world.config = TOLD
    await world.start_autorecovery("a")
    await asyncio.sleep(10)
    assert told(world) == [(bad, B1_B2)]
    assert await world.manager.last_check_ms(world.manager.paths.placement_checked) > 0
    assert await world.manager.ledgers() == []
    await writer.close()
    await asyncio.sleep(100)
    assert told(world)[1:] == [(bad, B1_B2), (writer.ledger_id, B1_B2)]
    assert await ensembles(world, good) == ["b1 b2 b3"]
    assert await ensembles(world, bad) == ["b1 b2"]


@simulated
async def test_copies_are_moved_so_that_write_sets_span_racks(world: World) -> None:
    await put_racks(world, left="12", right="345")
    good = await world.closed_ledger(3, (3, 3, 2))
    bad = await world.closed_ledger(20, (2, 2, 2))
    world.config = MOVED
    await world.start_autorecovery("a", "c")
    await asyncio.sleep(10)
    assert await ensembles(world, bad) == ["b3 b2"]
    assert await ensembles(world, good) == ["b1 b2 b3"]
    assert await world.missing(bad) == []
    assert await world.manager.ledgers() == []
    assert len(world.events("fragment.replicated")) == 1
    assert len(world.events("replication.done", ledger_id=bad)) == 1


@simulated
async def test_every_fragment_is_moved_by_itself(world: World) -> None:
    writer = await world.client.create_ledger(2, 2, 2)
    await writer.add(b"payload of entry 0")
    await world.stop_bookie("b2")
    await writer.add(b"payload of entry 1")
    await world.start_bookie("b2")
    await writer.close()
    assert await ensembles(world, writer.ledger_id) == ["b1 b2", "b1 b3"]
    await put_racks(world, left="123", right="45")
    world.config = MOVED
    await world.start_autorecovery("a")
    await asyncio.sleep(20)
    assert await ensembles(world, writer.ledger_id) == ["b4 b2", "b4 b3"]
    assert await world.missing(writer.ledger_id) == []


@simulated
async def test_a_ledger_is_marked_only_if_other_bookies_could_adhere_to_the_policy(
    world: World,
) -> None:
    await put_racks(world, left="12345")
    bad = await world.closed_ledger(3, (2, 2, 2))
    world.config = MOVED
    await world.start_autorecovery("a")
    await asyncio.sleep(250)
    assert told(world) == [(bad, B1_B2)] * 3
    assert world.events("ledger.underreplicated", "replication.started") == []
    await put_racks(world, left="12", right="345")
    await asyncio.sleep(100)
    assert await ensembles(world, bad) == ["b3 b2"]


@simulated
async def test_lost_copies_are_made_again_in_another_rack(world: World) -> None:
    await put_racks(world, left="123", right="45")
    world.config = replace(TOLD, auditor_periodic_placement_policy_check_interval_s=0)
    ledger_id = await world.closed_ledger(5, (2, 2, 2))
    await world.start_autorecovery("a")
    await world.stop_bookie("b1")
    await world.until_replicated()
    assert await ensembles(world, ledger_id) == ["b4 b2"]
    assert await world.missing(ledger_id) == []


@pytest.mark.parametrize("enforced", [False, True])
@simulated
async def test_racks_that_make_no_sense_end_no_auditor(world: World, enforced: bool) -> None:
    await put(world, b"{")
    bad = await world.closed_ledger(3, (2, 2, 2))
    world.config = replace(MOVED, enforce_min_num_racks_per_write_quorum=enforced)
    await world.start_autorecovery("a")
    await asyncio.sleep(10)
    reasons = [row.explanation for row in world.events("placement.unmet")]
    assert ["/bookies must be JSON" in reason for reason in reasons] == [enforced]
    await put_racks(world, left="12", right="345")
    await asyncio.sleep(200)
    assert not world.instances["a"].done()
    assert await ensembles(world, bad) == ["b3 b2"]
