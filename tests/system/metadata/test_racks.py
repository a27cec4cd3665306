"""Tests for parsing the rack assignments that Pulsar stores."""

import pytest

from labkit.system.metadata.racks import RACKS, decode_racks, read_racks
from labkit.system.model.errors import BKMetadataSerializationException
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world

WRITTEN_BY_PULSAR = (
    b'{"default":{"10.0.0.1:3181":{"rack":"/rack1","hostname":"one"},'
    b'"10.0.0.2:3181":{"rack":"rack2","hostname":null}},'
    b'"other":{"b2":{"rack":"/region/rack1"},"b3":{"rack":"/"},"b4":{}}}'
)


@pytest.mark.promise(
    "Racks are read from where Pulsar stores them (`/bookies`), and only if they matter"
)
def test_every_group_says_where_its_bookies_stand() -> None:
    assert decode_racks(WRITTEN_BY_PULSAR) == {
        "10.0.0.1:3181": "/rack1",
        "10.0.0.2:3181": "/rack2",
        "b2": "/region/rack1",
    }


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"group": 1}',
        b'{"g": {"b": "/rack"}}',
        b"\xff",
        pytest.param(b"[" * 500_000, id="nested"),
    ],
)
def test_what_makes_no_sense_is_rejected_with_what_it_should_be(data: bytes) -> None:
    with pytest.raises(BKMetadataSerializationException, match=r"/bookies must be JSON"):
        decode_racks(data)


@in_metadata_world()
async def test_racks_are_read_from_the_metadata_store(world: MetadataWorld) -> None:
    store = await world.session("a")
    assert await read_racks(store) == {}
    await store.create(RACKS, b"")
    assert await read_racks(store) == {}
    await store.set(RACKS, WRITTEN_BY_PULSAR, 0)
    assert (await read_racks(store))["b2"] == "/region/rack1"
