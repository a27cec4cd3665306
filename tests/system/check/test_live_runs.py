"""Test that real bookie processes keep every promise, even when they are killed and recovered."""

import asyncio
from contextlib import suppress

import pytest

from labkit.system.check import EPILOGUE, Outcome, Verdict, check_all
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reads import BookieReads
from labkit.system.client.striping import write_set
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import BKException
from labkit.system.trace.events import Event
from labkit.worlds.live.processes.cluster import LocalCluster

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def verdicts(cluster: LocalCluster, ledger_id: int) -> dict[str, Verdict]:
    """Return the verdicts for this ledger by check, after asserting that no promise is broken."""
    await cluster.settled()
    events = [event for event in cluster.trace.events if event.ledger in (-1, ledger_id)]
    found = check_all(events)
    assert [verdict for verdict in found if verdict.outcome is Outcome.INVALID] == []
    return {verdict.name: verdict for verdict in found}


async def add(writer: LedgerWriter, count: int) -> None:
    for number in range(count):
        writer.add(b"%d" % number)
    await writer.all_confirmed()


async def read_every_copy(cluster: LocalCluster, ledger_id: int) -> None:
    """Read every copy of every entry, as the simulated world does at the end of a run."""
    client = await cluster.connect(EPILOGUE)
    await client.open_ledger(ledger_id)
    metadata = await client.ledger_metadata(ledger_id)
    reads = BookieReads(ledger_id, metadata, client.context)
    for entry in range(metadata.last_entry_id + 1):
        places = write_set(entry, metadata.ensemble_size, metadata.write_quorum)
        ensemble = metadata.ensemble_at(entry)
        replies = reads.ask_all([ensemble[place] for place in places], entry)
        for _ in places:
            await replies.get()


async def test_a_ledger_that_was_written_closed_and_read(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(5, 3, 2)
    await add(writer, 100)
    await writer.close()
    await read_every_copy(cluster, writer.ledger_id)
    found = await verdicts(cluster, writer.ledger_id)
    valid = [name for name, verdict in found.items() if verdict.outcome is Outcome.VALID]
    assert {"AcknowledgedIsDurable", "ReadersAgree", "WriteSetIsRight", "AckFollowsSync"} <= {
        *valid
    }
    assert {"AllCommittedEntriesReachAckQuorum", "LedgerIsClosed"} <= {*valid}
    assert found["AcknowledgedIsDurable"].tested_count > 100
    assert found["AckFollowsSync"].tested_count >= 200


async def test_a_bookie_killed_under_load(cluster: LocalCluster, client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    adding = asyncio.create_task(add(writer, 300))
    await cluster.kill(writer.metadata.segments[0].ensemble[1])
    await adding
    await add(writer, 50)
    await writer.close()
    found = await verdicts(cluster, writer.ledger_id)
    assert found["LacAdvancesInOrder"].tested_count == 350
    assert found["ReadersAgree"].outcome is not Outcome.INVALID


async def test_a_ledger_taken_from_its_writer(cluster: LocalCluster, client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await add(writer, 50)
    adding = asyncio.create_task(add(writer, 200))
    other = await cluster.connect("recoverer")
    await other.open_ledger(writer.ledger_id)
    with suppress(BKException):  # The writer is fenced unless recovery found all entries in flight.
        await adding
    await read_every_copy(cluster, writer.ledger_id)
    found = await verdicts(cluster, writer.ledger_id)
    for name in ("AcknowledgedIsDurable", "FenceIsDurableBeforeTheResponse", "NoDirtyReads"):
        assert found[name].outcome is Outcome.VALID, found[name]


async def test_an_acknowledgement_taken_out_of_a_real_run_is_missed(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    """If something is wrong, the same checks report it."""
    writer = await client.create_ledger(3, 3, 3)
    for _ in range(3):
        await add(writer, 1)
    await writer.close()
    await cluster.settled()
    mine = [event for event in cluster.trace.events if event.ledger == writer.ledger_id]

    def without(kind: str) -> list[Event]:
        gone = next(event for event in mine if event.kind == kind and event.entry == 1)
        return [event for event in mine if event is not gone]

    def broken_without(kind: str) -> set[str]:
        found = check_all(without(kind))
        return {verdict.name for verdict in found if verdict.outcome is Outcome.INVALID}

    assert "AckQuorumIsReached" in broken_without("add.acked")
    assert "LacAdvancesInOrder" in broken_without("lac.advanced")
    assert "WriteSetIsRight" in broken_without("add.sent")
    assert "AckFollowsSync" in broken_without("journal.synced")
