"""Test how the replicas check counts copies: which requests it sends, and what it reports."""

import asyncio
from collections.abc import Callable

import pytest

from labkit.system.autorecovery.replicas_check import ReplicasCheck
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from tests.system.autorecovery.world import World, payload, simulated


async def report(world: World, ledger_id: int) -> str:
    """Return the explanation that the check records, or "" if it records nothing."""
    world.rows.clear()
    await ReplicasCheck(world.client).check(ledger_id)
    reports = world.events("replicas.missing")
    assert all(row.ledger == ledger_id for row in reports)
    return "; ".join(row.explanation for row in reports)


def counts(none: int, below_ack_quorum: int, below_write_quorum: int) -> str:
    return (
        f"entries without a copy: {none}, with fewer than Qa: {below_ack_quorum},"
        f" with fewer than Qw: {below_write_quorum}"
    )


def reads(world: World) -> list[tuple[str, int]]:
    return [(row.peer, row.entry) for row in world.events("read.sent")]


@simulated
async def test_ledger_with_all_its_copies_is_not_reported(world: World) -> None:
    for sizes in ((3, 3, 2), (3, 2, 2), (5, 2, 1)):
        assert await report(world, await world.closed_ledger(7, sizes)) == ""
        assert reads(world) == []
    assert await report(world, await world.closed_ledger(0)) == ""


@simulated
async def test_bookie_that_does_not_know_the_ledger_has_no_copy_and_is_asked_once(
    world: World,
) -> None:
    ledger_id = await world.closed_ledger(4)
    world.bookies["b2"].lose(ledger_id, *range(4))
    assert await report(world, ledger_id) == counts(0, 0, 4)
    assert reads(world) == []


@simulated
async def test_bookie_that_gives_no_list_is_asked_for_each_entry_that_it_should_have(
    world: World,
) -> None:
    ledger_id = await world.closed_ledger(6, (3, 2, 2))
    world.bookies["b2"].gives_lists = False
    for name in ("b1", "b2"):
        world.bookies[name].lose(ledger_id, 3)
    assert await report(world, ledger_id) == counts(1, 0, 0)
    assert reads(world) == [("b2", entry_id) for entry_id in (0, 1, 3, 4)]


@simulated
async def test_bookie_that_is_gone_has_no_copy(world: World) -> None:
    ledger_id = await world.closed_ledger(3)
    await world.stop_bookie("b1")
    assert await report(world, ledger_id) == counts(0, 0, 3)


@simulated
async def test_each_segment_counts_with_its_own_bookies_and_each_bookie_is_asked_once(
    world: World,
) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    for number in range(3):
        await writer.add(payload(number))
    world.bookies["b2"].is_up = False
    for number in range(3, 5):
        await writer.add(payload(number))
    await asyncio.sleep(1)
    await writer.close()
    await world.start_bookie("b2")
    asked: list[str] = []
    for bookie in world.bookies.values():
        answer = bookie.list_entries

        def noted(
            body: bytes,
            name: str = bookie.name,
            answer: Callable[[bytes], list[bytes]] = answer,
        ) -> list[bytes]:
            asked.append(name)
            return answer(body)

        bookie.list_entries = noted  # type: ignore[method-assign]
    assert await report(world, writer.ledger_id) == ""
    assert sorted(asked) == ["b1", "b2", "b3", "b4"]
    world.bookies["b4"].lose(writer.ledger_id, 4)
    world.bookies["b1"].lose(writer.ledger_id, 0, 4)
    assert await report(world, writer.ledger_id) == counts(0, 1, 1)


@simulated
async def test_open_ledger_is_not_counted_and_one_that_is_gone_is_an_error(world: World) -> None:
    writer = await world.client.create_ledger(3, 3, 2)
    await writer.add(payload(0))
    await asyncio.sleep(1)
    world.bookies["b1"].lose(writer.ledger_id, 0)
    assert await report(world, writer.ledger_id) == ""
    await world.client.delete_ledger(writer.ledger_id)
    with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
        await report(world, writer.ledger_id)
