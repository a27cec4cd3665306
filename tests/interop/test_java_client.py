"""Apache BookKeeper's client and labkit's client share ledgers on labkit's bookies.

Apache's client uses both versions of the protocol; `test_protocol_v3` tests what only the newer one
has.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.entry import DigestType
from labkit.system.model.errors import (
    BKLedgerFencedException,
    BKNoSuchLedgerExistsOnMetadataServerException,
)
from labkit.system.model.ledger import LedgerState
from tests.interop.apache import DriverFailed, JavaClient
from tests.interop.conftest import Cluster
from tests.interop.payloads import LAST_ENTRY_ID, LENGTH, PASSWORD, PAYLOADS, write

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("labkit"),
    pytest.mark.asyncio(loop_scope="session"),
]

# In the Java API, the digest type that the metadata calls HMAC is named MAC.
DIGESTS = [
    (DigestType.CRC32C, "CRC32C"),
    (DigestType.CRC32, "CRC32"),
    (DigestType.HMAC, "MAC"),
    (DigestType.DUMMY, "DUMMY"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["v2", "v3"])
async def java(cluster: Cluster, request: pytest.FixtureRequest) -> JavaClient:
    return await cluster.java_client(request.param)


@pytest.mark.promise(
    "Apache's client, v2 and v3, creates, writes, reads, recovers and deletes ledgers on "
    "labkit's bookies"
)
@pytest.mark.parametrize(("digest", "java_name"), DIGESTS)
async def test_labkit_reads_what_java_wrote_and_closed(
    java: JavaClient, labkit: BookKeeper, digest: DigestType, java_name: str
) -> None:
    ledger_id = await java.create(3, 2, 2, java_name)
    assert await java.add(ledger_id, PAYLOADS) == LAST_ENTRY_ID
    await java.close(ledger_id)

    reader = await labkit.open_ledger_no_recovery(ledger_id, password=PASSWORD)

    assert reader.metadata.digest_type is digest
    assert reader.metadata.state is LedgerState.CLOSED
    assert reader.metadata.length == LENGTH
    assert [entry.payload async for entry in reader.read()] == PAYLOADS
    assert await java.open(ledger_id, java_name) == (LAST_ENTRY_ID, LENGTH)
    assert await java.read(ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS


@pytest.mark.parametrize(("digest", "java_name"), DIGESTS)
async def test_java_reads_what_labkit_wrote_and_closed(
    java: JavaClient, labkit: BookKeeper, digest: DigestType, java_name: str
) -> None:
    writer = await write(labkit, 3, 2, 2, digest_type=digest)
    await writer.close()

    assert await java.open(writer.ledger_id, java_name) == (LAST_ENTRY_ID, LENGTH)
    assert await java.read(writer.ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS


async def test_each_reads_the_others_open_ledger_up_to_its_last_add_confirmed(
    java: JavaClient, labkit: BookKeeper
) -> None:
    ledger_id = await java.create(3, 3, 2, "CRC32C")
    for payload in PAYLOADS[:3]:
        await java.add(ledger_id, [payload])
    reader = await labkit.open_ledger_no_recovery(ledger_id, password=PASSWORD)
    assert reader.last_add_confirmed == 1
    assert [entry.payload async for entry in reader.read()] == PAYLOADS[:2]

    writer = await labkit.create_ledger(3, 3, 2, password=PASSWORD)
    for payload in PAYLOADS[:3]:
        await writer.add(payload)
    last, _ = await java.open(writer.ledger_id)
    assert last == 1
    assert await java.read(writer.ledger_id, 0, 1) == PAYLOADS[:2]


async def test_java_recovers_an_open_ledger_and_fences_its_labkit_writer(
    java: JavaClient, labkit: BookKeeper
) -> None:
    writer = await write(labkit, 3, 3, 2)

    # Recovery finds the last entry by reading past LastAddConfirmed, and writes it back.
    assert await java.open(writer.ledger_id, recovery=True) == (LAST_ENTRY_ID, LENGTH)

    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"too late")
    metadata = await labkit.ledger_metadata(writer.ledger_id)
    assert metadata.state is LedgerState.CLOSED
    assert (metadata.last_entry_id, metadata.length) == (LAST_ENTRY_ID, LENGTH)
    assert await java.read(writer.ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS


async def test_labkit_recovers_an_open_ledger_and_fences_its_java_writer(
    java: JavaClient, labkit: BookKeeper
) -> None:
    ledger_id = await java.create(3, 3, 2, "CRC32C")
    await java.add(ledger_id, PAYLOADS)
    reader = await labkit.open_ledger(ledger_id, password=PASSWORD)
    assert (reader.last_add_confirmed, reader.metadata.length) == (LAST_ENTRY_ID, LENGTH)
    assert [entry.payload async for entry in reader.read()] == PAYLOADS
    with pytest.raises(DriverFailed, match="BKLedgerFencedException"):
        await java.add(ledger_id, [b"too late"])


@pytest.mark.promise("Each client recovers a ledger whose writer, of the other system, was killed")
async def test_labkit_recovers_the_ledger_of_a_java_writer_that_was_killed(
    cluster: Cluster, labkit: BookKeeper
) -> None:
    killed = await cluster.java_client()
    ledger_id = await killed.create(3, 3, 2, "CRC32C")
    await killed.add(ledger_id, PAYLOADS)
    await killed.kill()
    reader = await labkit.open_ledger(ledger_id, password=PASSWORD)
    assert (reader.last_add_confirmed, reader.metadata.length) == (LAST_ENTRY_ID, LENGTH)
    assert [entry.payload async for entry in reader.read()] == PAYLOADS


async def test_java_recovers_the_ledger_of_a_labkit_writer_that_was_killed(
    cluster: Cluster, java: JavaClient
) -> None:
    command = (sys.executable, "-m", "tests.interop.killed_writer", cluster.zookeeper)
    writer = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    assert writer.stdout is not None
    ledger_id = int(await writer.stdout.readline())
    writer.kill()
    await writer.wait()
    assert await java.open(ledger_id, recovery=True) == (LAST_ENTRY_ID, LENGTH)
    assert await java.read(ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS


async def test_java_reads_in_batches(cluster: Cluster, labkit: BookKeeper) -> None:
    java = await cluster.java_client("v2")  # Version 3 has no batch reads.
    writer = await write(labkit, 3, 3, 2)
    await writer.close()
    await java.open(writer.ledger_id)
    read = await java.read_batch(writer.ledger_id, 0, 3, 5 * 1024 * 1024)
    assert read == PAYLOADS[:3]
    for first in range(LAST_ENTRY_ID + 1):
        read = await java.read_batch(writer.ledger_id, first, 0, 2000)
        assert read == PAYLOADS[first : first + len(read)]
        assert read


async def test_java_recovers_an_empty_ledger(java: JavaClient, labkit: BookKeeper) -> None:
    writer = await labkit.create_ledger(3, 3, 2, password=PASSWORD)

    assert await java.open(writer.ledger_id, recovery=True) == (-1, 0)

    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"too late")


async def test_a_ledger_that_one_deletes_is_gone_for_the_other(
    java: JavaClient, labkit: BookKeeper
) -> None:
    ledger_id = await java.create(1, 1, 1, "CRC32C")
    await java.close(ledger_id)
    await labkit.delete_ledger(ledger_id)
    with pytest.raises(DriverFailed, match="BKNoSuchLedgerExistsOnMetadataServerException"):
        await java.open(ledger_id)

    writer = await labkit.create_ledger(1, 1, 1, password=PASSWORD)
    await java.delete(writer.ledger_id)
    with pytest.raises(BKNoSuchLedgerExistsOnMetadataServerException):
        await labkit.open_ledger_no_recovery(writer.ledger_id, password=PASSWORD)
