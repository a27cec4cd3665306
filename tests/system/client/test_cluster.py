"""Writers and readers on real bookies that are killed, paused and brought back."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.system.model.entry import DigestType, decode_entry, make_digest
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKBookieHandleNotAvailableException,
    BKException,
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKNotEnoughBookiesException,
    BKReadException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.trace.recorder import Row
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.bookie.raw import FENCE, KEY, RawClient, read
from tests.until import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java]


@pytest_asyncio.fixture(loop_scope="session")
async def hasty(cluster: LocalCluster) -> AsyncIterator[BookKeeper]:
    """A client that waits a tenth of a second for an answer."""
    config = ClientConfig(request_timeout_s=0.1)
    client = await cluster.connect(placement=in_name_order, config=config)
    yield client
    client.close()


async def entries_on(
    client: BookKeeper, bookie: str, ledger_id: int, entry_ids: Iterable[int]
) -> dict[int, bytes]:
    """What the bookie itself gives for these entries, those it has not left out."""
    endpoint = await find_endpoint(client.store, bookie, BOOKIE_RPC)
    wanted = list(entry_ids)
    found: dict[int, bytes] = {}
    async with RawClient(endpoint.port) as raw:
        for at in range(0, len(wanted), 100):
            some = wanted[at : at + 100]
            await raw.send(b"".join(read(ledger_id, entry_id) for entry_id in some))
            answers = [await raw.receive() for _ in some]
            for said in answers:
                entry_id = int.from_bytes(said[20:28], "big")
                if said[8:12] == bytes(4):
                    found[entry_id] = said[28:]
    return found


async def test_with_e_4_and_qw_3_entries_lie_on_1_2_3_then_2_3_4_then_3_4_1_then_4_1_2(
    client: BookKeeper,
) -> None:
    writer = await client.create_ledger(4, 3, 2)
    ensemble = [f"bookie-{number}" for number in range(1, 5)]
    assert writer.metadata.segments[0].ensemble == tuple(ensemble)
    for _ in range(5):
        await writer.add(b"entry")
    stored: dict[str, set[int]] = {}
    for bookie, entry_ids in zip(
        ensemble, [{0, 2, 3, 4}, {0, 1, 3, 4}, {0, 1, 2, 4}, {1, 2, 3}], strict=True
    ):
        # The ack that comes after the quorum's is not waited for by the writer.
        async with asyncio.timeout(30):
            while len(stored.setdefault(bookie, set())) < len(entry_ids):
                stored[bookie] = set(await entries_on(client, bookie, writer.ledger_id, range(5)))
        assert stored[bookie] == entry_ids
    await writer.close()


async def test_reader_sees_nothing_beyond_last_add_confirmed(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 3)
    for _ in range(3):
        await writer.add(b"entry")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert (writer.last_add_confirmed, reader.last_add_confirmed) == (2, 1)
    assert [entry.entry_id async for entry in reader.read()] == [0, 1]
    with pytest.raises(BKReadException):
        await reader.read_entry(2)
    await writer.add(b"one more tells it")
    assert await reader.read_last_add_confirmed() == 2
    assert (await reader.read_entry(2)).payload == b"entry"
    await writer.close()


async def test_closed_ledger_is_readable_to_its_last_entry(client: BookKeeper) -> None:
    writer = await client.create_ledger(5, 3, 2)
    payloads = [b"%d" % number for number in range(600)]
    await asyncio.gather(*map(writer.add, payloads))
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert reader.metadata.state is LedgerState.CLOSED
    assert [entry.payload async for entry in reader.read()] == payloads
    assert reader.metadata.length == sum(map(len, payloads))
    assert [entry.entry_id for entry in await reader.read_entries(598, 599)] == [598, 599]


async def test_empty_ledger_can_be_closed_and_opened(client: BookKeeper) -> None:
    writer = await client.create_ledger()
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert reader.last_add_confirmed == -1
    assert [entry async for entry in reader.read()] == []


@pytest.mark.parametrize("digest_type", list(DigestType))
async def test_every_digest_type_brings_entries_back(
    client: BookKeeper, digest_type: DigestType
) -> None:
    writer = await client.create_ledger(3, 2, 2, digest_type=digest_type, password=b"pw")
    await writer.add(b"payload")
    await writer.add(b"")
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id, password=b"pw")
    assert [entry.payload async for entry in reader.read()] == [b"payload", b""]


async def test_largest_payload_comes_back_and_a_larger_one_is_refused(client: BookKeeper) -> None:
    writer = await client.create_ledger(2, 2, 2, digest_type=DigestType.HMAC)
    with pytest.raises(BKIncorrectParameterException, match=f"at most {MAX_PAYLOAD_SIZE} fit"):
        writer.add(bytes(MAX_PAYLOAD_SIZE + 1))
    assert await writer.add(bytes(MAX_PAYLOAD_SIZE)) == 0
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert len((await reader.read_entry(0)).payload) == MAX_PAYLOAD_SIZE


async def test_wrong_password_opens_nothing(client: BookKeeper) -> None:
    writer = await client.create_ledger(password=b"secret")
    await writer.add(b"entry")
    with pytest.raises(BKUnauthorizedAccessException, match="has another password"):
        await client.open_ledger_no_recovery(writer.ledger_id)
    await writer.close()


async def test_closed_writer_takes_no_adds(client: BookKeeper) -> None:
    writer = await client.create_ledger()
    await writer.add(b"entry")
    await writer.close()
    await writer.close()
    with pytest.raises(BKLedgerClosedException, match="was closed by its writer"):
        writer.add(b"late")


@pytest.mark.parametrize(
    ("e", "qw", "qa"),
    [(2, 3, 2), (3, 2, 3), (0, 0, 0), (3, 3, 0), (-1, -1, -1), (3, 0, -1)],
)
async def test_sizes_that_do_not_fit_are_refused_with_the_rule(
    client: BookKeeper, e: int, qw: int, qa: int
) -> None:
    with pytest.raises(
        BKIncorrectParameterException, match="ensemble_size >= write_quorum >= ack_quorum >= 1"
    ):
        await client.create_ledger(e, qw, qa)


async def test_ensemble_larger_than_the_cluster_is_not_enough_bookies(client: BookKeeper) -> None:
    ledgers = await client.list_ledgers()
    with pytest.raises(BKNotEnoughBookiesException, match="of 6 bookies is wanted, 5 take writes"):
        await client.create_ledger(6, 3, 2)
    assert await client.list_ledgers() == ledgers


async def test_deleted_ledger_is_not_there(client: BookKeeper) -> None:
    writer = await client.create_ledger()
    await writer.close()
    assert writer.ledger_id in await client.list_ledgers()
    await client.delete_ledger(writer.ledger_id)
    assert writer.ledger_id not in await client.list_ledgers()
    for call in (client.open_ledger_no_recovery, client.delete_ledger, client.ledger_metadata):
        with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
            await call(writer.ledger_id)


async def test_ledgers_of_two_clients_have_different_ids(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    other = await cluster.connect("other")
    writers = await asyncio.gather(
        *(who.create_ledger() for who in (client, other) for _ in range(10))
    )
    assert len({writer.ledger_id for writer in writers}) == 20


async def test_fenced_writer_stops(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await writer.add(b"entry")
    for bookie in writer.metadata.segments[0].ensemble:
        endpoint = await find_endpoint(client.store, bookie, BOOKIE_RPC)
        async with RawClient(endpoint.port) as raw:
            await raw.ask(read(writer.ledger_id, -1, FENCE, KEY))
    with pytest.raises(BKLedgerFencedException, match="another client recovers it"):
        await writer.add(b"late")


async def test_adds_go_on_while_one_bookie_is_paused(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await writer.add(b"before")
    await cluster.pause("bookie-2")
    for number in range(1, 50):
        assert await writer.add(b"during") == number
    await cluster.resume("bookie-2")
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert len([entry async for entry in reader.read()]) == 50


async def test_two_paused_bookies_of_three_are_replaced(
    cluster: LocalCluster, hasty: BookKeeper
) -> None:
    writer = await hasty.create_ledger(3, 3, 2)
    await writer.add(b"before")
    await cluster.pause("bookie-2")
    await cluster.pause("bookie-3")
    assert await writer.add(b"during") == 1
    first, *_, last = writer.metadata.segments
    assert first.ensemble == ("bookie-1", "bookie-2", "bookie-3")
    assert last.ensemble[0] == "bookie-1"
    assert sorted(last.ensemble[1:]) == ["bookie-4", "bookie-5"]
    await writer.close()


async def test_writer_ends_when_too_few_bookies_are_left_and_names_those_that_failed(
    cluster: LocalCluster, hasty: BookKeeper
) -> None:
    writer = await hasty.create_ledger(5, 5, 4)
    await writer.add(b"before")
    await cluster.pause("bookie-2")
    await cluster.pause("bookie-3")
    with pytest.raises(BKNotEnoughBookiesException, match=r"bookie-[23] did not answer for entry"):
        await writer.add(b"lost")
    with pytest.raises(BKNotEnoughBookiesException, match="no other bookie takes writes"):
        writer.add(b"later")
    await writer.close()
    assert (await hasty.ledger_metadata(writer.ledger_id)).last_entry_id == 0


async def test_read_passes_over_a_killed_bookie(cluster: LocalCluster, client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 3)
    for _ in range(6):
        await writer.add(b"entry")
    await writer.close()
    await cluster.kill("bookie-1")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert [entry.entry_id async for entry in reader.read()] == list(range(6))


async def test_entry_whose_bookies_are_all_down_is_not_reported_as_missing(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(2, 2, 2)
    await writer.add(b"entry")
    await writer.close()
    await cluster.kill("bookie-1")
    await cluster.kill("bookie-2")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    with pytest.raises(BKException) as raised:
        await reader.read_entry(0)
    assert not isinstance(raised.value, PROVES_ABSENCE)


async def test_client_finds_a_restarted_bookie_at_its_new_port(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(1, 1, 1)
    await writer.add(b"entry")
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    await cluster.restart("bookie-1")
    async with asyncio.timeout(30):
        while True:
            try:
                assert (await reader.read_entry(0)).payload == b"entry"
                break
            except BKBookieHandleNotAvailableException:
                # The client waits a moment before it connects again.
                await asyncio.sleep(0.01)


async def test_bookie_with_a_damaged_registration_is_replaced(client: BookKeeper) -> None:
    path = "/ledgers/available/bookie-0"
    await client.store.create(path, b"", ephemeral=True)
    try:
        writer = await client.create_ledger(1, 1, 1)
        assert writer.metadata.segments[0].ensemble == ("bookie-0",)
        assert await writer.add(b"entry") == 0
        assert writer.metadata.segments[0].ensemble == ("bookie-1",)
        await writer.close()
    finally:
        await client.store.delete(path)


def acked_by(rows: list[Row], bookie: str) -> list[int]:
    return [row.entry for row in rows if row.kind == "add.acked" and row.peer == bookie]


def decoded(data: bytes, metadata: LedgerMetadata, ledger_id: int, entry_id: int) -> bytes:
    digest = make_digest(metadata.digest_type, metadata.password)
    return decode_entry(data, digest, ledger_id, entry_id).payload


async def test_kill_of_one_of_five_bookies_during_10000_adds_loses_no_acked_entry() -> None:
    payloads = [b"entry %d " % number * 10 for number in range(10_000)]
    rows: list[Row] = []
    async with LocalCluster(5, traced=False) as cluster:
        client = await cluster.connect(placement=in_name_order)
        client.recorder.listen(rows.extend)
        writer = await client.create_ledger(5, 3, 2)
        adds = [writer.add(payload) for payload in payloads[:5000]]
        await until(lambda: writer.last_add_confirmed > 500)
        killing = asyncio.create_task(cluster.kill("bookie-2"))
        for at in range(5000, 10_000, 500):
            adds += map(writer.add, payloads[at : at + 500])
            await adds[at - 2000]
        await killing
        assert await asyncio.gather(*adds) == list(range(10_000))
        acked = acked_by(rows, "bookie-2")
        assert 0 < len(acked) < 6000
        await writer.close()

        await cluster.restart("bookie-2")
        reader = await client.open_ledger_no_recovery(writer.ledger_id)
        assert [entry.payload async for entry in reader.read()] == payloads
        itself = await entries_on(client, "bookie-2", writer.ledger_id, acked)
        for entry_id in acked:
            data = itself[entry_id]
            payload = decoded(data, reader.metadata, writer.ledger_id, entry_id)
            assert payload == payloads[entry_id]
