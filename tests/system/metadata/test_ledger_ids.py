import pytest

from labkit.system.metadata.ledger_ids import LedgerIdGenerator
from labkit.system.metadata.ledger_layout import (
    FLAT,
    HIERARCHICAL,
    LEGACY_HIERARCHICAL,
    LONG_HIERARCHICAL,
    SHORT_ID_LIMIT,
    LedgerLayout,
)
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import BKLedgerIdOverflowException
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world


def use_up(world: MetadataWorld, folder: str, left: int) -> None:
    """Leave only `left` short ids in that directory."""
    world.zookeeper.tree.nodes[folder].created_count = SHORT_ID_LIMIT - left


async def drawn(store: MetadataStore, layout: LedgerLayout, count: int) -> list[int]:
    ids = LedgerIdGenerator(store, "/ledgers", layout)
    return [await ids.next_id() for _ in range(count)]


@pytest.mark.parametrize(
    ("layout", "folder"),
    [
        (FLAT, "/ledgers"),
        (LEGACY_HIERARCHICAL, "/ledgers/idgen"),
        (HIERARCHICAL, "/ledgers/idgen"),
        (LONG_HIERARCHICAL, "/ledgers/idgen"),
    ],
)
@in_metadata_world()
async def test_first_ids_are_short_and_their_nodes_go(
    world: MetadataWorld, layout: LedgerLayout, folder: str
) -> None:
    store = await world.session("a")
    assert await drawn(store, layout, 3) == [0, 1, 2]
    assert await store.children(folder) == []


@pytest.mark.promise("No two ledgers have the same id; long ids follow when short ids are used up")
@pytest.mark.parametrize("layout", [HIERARCHICAL, LONG_HIERARCHICAL])
@in_metadata_world()
async def test_long_ids_follow_when_the_short_ones_are_used_up(
    world: MetadataWorld, layout: LedgerLayout
) -> None:
    store, other = await world.session("a"), await world.session("b")
    await store.create("/ledgers/idgen", b"")
    use_up(world, "/ledgers/idgen", left=2)
    assert await drawn(store, layout, 4) == [2147483645, 2147483646, 1 << 32, (1 << 32) + 1]
    assert await store.children("/ledgers/idgen-long") == ["HOB-0000000001"]
    # Another client notices immediately that short ids are no longer used.
    use_up(world, "/ledgers/idgen", left=10)
    assert await drawn(other, layout, 1) == [(1 << 32) + 2]


@in_metadata_world()
async def test_nodes_that_are_no_high_bits_are_ignored(world: MetadataWorld) -> None:
    store = await world.session("a")
    for name in ("HOB-other", "HOB-7", "other"):
        await store.create(f"/ledgers/idgen-long/{name}", b"")
    assert await drawn(store, HIERARCHICAL, 1) == [1 << 32]


@pytest.mark.parametrize("layout", [FLAT, LEGACY_HIERARCHICAL])
@in_metadata_world()
async def test_layout_without_long_ids_draws_none_whatever_nodes_there_are(
    world: MetadataWorld, layout: LedgerLayout
) -> None:
    store = await world.session("a")
    await store.create("/ledgers/idgen-long", b"")
    assert max(await drawn(store, layout, 2)) < SHORT_ID_LIMIT


@in_metadata_world()
async def test_client_that_draws_long_ids_does_not_ask_again_whether_it_should(
    world: MetadataWorld,
) -> None:
    store = await world.session("a")
    await store.create("/ledgers/idgen-long", b"")
    asked: list[str] = []
    exists = store.exists

    async def noted(path: str) -> bool:
        asked.append(path)
        return await exists(path)

    store.exists = noted  # type: ignore[method-assign,assignment]
    assert await drawn(store, HIERARCHICAL, 3) == [(1 << 32) + number for number in range(3)]
    assert asked == ["/ledgers/idgen-long"]


@in_metadata_world()
async def test_high_bits_grow_when_the_low_ones_are_used_up(world: MetadataWorld) -> None:
    store = await world.session("a")
    await store.create("/ledgers/idgen-long/HOB-0000000007", b"")
    use_up(world, "/ledgers/idgen-long/HOB-0000000007", left=1)
    low = SHORT_ID_LIMIT - 1
    assert await drawn(store, HIERARCHICAL, 3) == [(7 << 32) + low, 8 << 32, (8 << 32) + 1]


@pytest.mark.parametrize(
    ("layout", "folder"), [(FLAT, "/ledgers"), (LEGACY_HIERARCHICAL, "/ledgers/idgen")]
)
@in_metadata_world()
async def test_layout_without_long_ids_says_that_none_are_left(
    world: MetadataWorld, layout: LedgerLayout, folder: str
) -> None:
    store = await world.session("a")
    await store.create(folder, b"")
    use_up(world, folder, left=1)
    assert await drawn(store, layout, 1) == [2147483646]
    for _ in range(2):
        with pytest.raises(BKLedgerIdOverflowException, match="all ledger ids"):
            await drawn(store, layout, 1)
    assert not await store.exists("/ledgers/idgen-long")


@in_metadata_world()
async def test_number_below_zero_is_one_that_is_used_up(world: MetadataWorld) -> None:
    """ZooKeeper's counter is a signed 32-bit number that wraps around to -2147483648."""
    store = await world.session("a")
    await store.create("/ledgers/idgen", b"")
    world.zookeeper.tree.nodes["/ledgers/idgen"].created_count = -(2**31)
    assert await drawn(store, HIERARCHICAL, 1) == [1 << 32]
