"""Test in the simulated world that no schema version is lost when a broker crashes."""

import pytest

from labkit.system.broker.schemas.registry import Schemas, encode_version
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.proto.pulsar_pb2 import Schema
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.settings.triggers import At
from tests.repeat import repeated
from tests.system.topic.simulated import Story, simulate

TOPIC = "persistent://public/default/t"


def schema(number: int) -> Schema:
    definition = ('["int","string","bytes","long"]', '["long","bytes","string","int"]', '"int"')
    return Schema(name="s", type=Schema.Json, schema_data=definition[number].encode())


async def register(client: BookKeeper, number: int) -> bytes:
    return await Schemas(client, ManagedLedgerConfig()).register(TOPIC, schema(number))


@pytest.mark.promise("No schema is lost if the broker crashes while storing one")
@pytest.mark.parametrize("crash_at_ms", repeated([5, 7, 13, 1, 3, 9, 11, 15], 3))
def test_a_crash_while_a_version_is_stored_leaves_at_most_a_ledger(crash_at_ms: int) -> None:
    """At 5 and 13 ms, a ledger is stored but its locator is not; at 7 ms, the response is
    missing.
    """
    acknowledged: list[bytes] = []

    async def writer(client: BookKeeper) -> None:
        acknowledged.append(await register(client, 0))
        acknowledged.append(await register(client, 1))

    async def reader(client: BookKeeper) -> None:
        schemas = Schemas(client, ManagedLedgerConfig())
        found = await schemas.find_all(TOPIC)
        assert [each.schema.schema_data for each in found] == [
            schema(number).schema_data for number in range(len(found))
        ]
        assert len(acknowledged) <= len(found) <= len(acknowledged) + 1
        ledgers = await client.list_ledgers()
        assert len(found) <= len(ledgers) <= len(found) + 1
        assert await register(client, 0) == encode_version(0)
        assert await register(client, 1) == encode_version(1)

    crash = Crash("p", "kept", down_ms=60_000, when=At(crash_at_ms))
    simulate(Story(writer), Story(reader, "r", At(30_000)), faults=(crash,))
