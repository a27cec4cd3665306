"""Tests for rack-aware placement for new ledgers and for replacements of failed bookies."""

import json

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.metadata.racks import RACKS
from labkit.system.model.errors import BKMetadataSerializationException, BKNotEnoughBookiesException
from tests.system.client.scripted_bookies import Script, pushed
from tests.until import until

AWARE = ClientConfig(request_timeout_s=60.0, min_num_racks_per_write_quorum=2)
STRICT = ClientConfig(
    request_timeout_s=60.0,
    min_num_racks_per_write_quorum=2,
    enforce_min_num_racks_per_write_quorum=True,
)


def put_racks(script: Script, **racks: str) -> None:
    """Assign bookies to racks; each value lists the bookies' numbers."""
    bookies = {
        f"b{number}": {"rack": rack, "hostname": ""}
        for rack, numbers in racks.items()
        for number in numbers
    }
    script.store.tree.create(RACKS, json.dumps({"default": bookies}).encode(), 0, False)


async def test_new_ledger_spans_racks() -> None:
    script = Script(5, 3, 2, config=AWARE)
    put_racks(script, left="123", right="45")
    script.all_serve()
    writer = await script.client.create_ledger(4, 2, 2)
    assert writer.metadata.segments[0].ensemble == ("b1", "b4", "b2", "b5")


async def test_failed_bookie_is_replaced_so_that_racks_are_spanned() -> None:
    script = Script(2, 2, 2, spares=3, config=AWARE)
    put_racks(script, left="134", right="25")
    await pushed(script, 1)
    script.bookies[1].drop()
    await until(lambda: script.bookies[4].adds == [0])
    assert await script.segments() == [(0, "b1 b5")]
    # The only other bookie on the right has failed before, so two bookies in one rack are better.
    script.bookies[4].drop()
    await until(lambda: script.bookies[2].adds == [0])
    assert await script.segments() == [(0, "b1 b3")]


async def test_enforced_rule_takes_no_bookie_that_breaks_it() -> None:
    script = Script(2, 2, 2, spares=1, config=STRICT)
    put_racks(script, left="13", right="2")
    assert (await script.client.create_ledger(2, 2, 2)).metadata.segments[0].ensemble == (
        "b1",
        "b2",
    )
    with pytest.raises(BKNotEnoughBookiesException, match="enforceMinNumRacksPerWriteQuorum"):
        await script.client.create_ledger(3, 2, 2)
    _, [added] = await pushed(script, 1)
    script.bookies[1].drop()
    with pytest.raises(BKNotEnoughBookiesException, match="b2 failed"):
        await added


@pytest.mark.parametrize(("config", "asks"), [(AWARE, 1), (ClientConfig(), 0)])
async def test_racks_are_asked_for_only_if_they_matter(config: ClientConfig, asks: int) -> None:
    script = Script(3, 3, 2, config=config)
    await script.client.context.watcher.new_ensemble(3, 3)
    assert script.store.get_count == asks


async def test_invalid_racks_are_ignored_unless_racks_are_enforced() -> None:
    script = Script(3, 3, 2, config=AWARE)
    script.store.tree.create(RACKS, b"rack 1", 0, False)
    assert await script.client.context.watcher.new_ensemble(3, 3) == ("b1", "b2", "b3")
    script.config = STRICT
    with pytest.raises(BKMetadataSerializationException, match="/bookies must be JSON"):
        await script.new_client("strict").context.watcher.new_ensemble(3, 3)
