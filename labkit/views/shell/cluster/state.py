"""The verbs that query a cluster's metadata store and its bookies.

In BookKeeper: `tools/cli/commands/bookies/*.java`, `tools/cli/commands/bookie/*Ledger*.java`,
`tools/cli/commands/client/*.java`.
"""

import uuid
from collections.abc import AsyncIterator, Iterable

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.cluster import format_cluster, init_new_cluster, read_instance_id
from labkit.system.metadata.ledger_layout import LAYOUTS
from labkit.system.metadata.registered_bookies import registered_bookies
from labkit.system.metadata.registration import BOOKIE_RPC, all_bookies, find_endpoint
from labkit.system.metadata.store import MetadataStore
from labkit.system.metadata.watched_nodes import WatchedNodes
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    BKReadException,
)
from labkit.views.shell.cluster.records import (
    BookieOfCluster,
    BookieStatus,
    ClusterMade,
    InstanceId,
    LedgerDeleted,
    LedgerId,
    LedgerNode,
    ReadEntry,
    SimpleTestPassed,
)


async def initnewcluster(store: MetadataStore, layout_name: str) -> ClusterMade:
    """Create the znodes of a new cluster. Raises `ClusterInUseError` if a cluster already
    exists.
    """
    instance_id = str(uuid.uuid4())
    await init_new_cluster(store, instance_id, LAYOUTS[layout_name])
    return ClusterMade(instance_id, layout_name)


async def metaformat(store: MetadataStore, layout_name: str) -> ClusterMade:
    """Delete a cluster's metadata and create a new cluster. Raises `ClusterInUseError` if bookies
    are running.
    """
    instance_id = str(uuid.uuid4())
    await format_cluster(store, instance_id, LAYOUTS[layout_name])
    return ClusterMade(instance_id, layout_name)


async def whatisinstanceid(store: MetadataStore) -> InstanceId:
    """Return the cluster's instance id. Raises `NoNodeError` if there is no cluster."""
    return InstanceId(await read_instance_id(store))


async def listbookies(
    store: MetadataStore, states: Iterable[BookieStatus] = tuple(BookieStatus)
) -> list[BookieOfCluster]:
    """Return the bookies in these states, sorted by id. A bookie that is down has only a cookie."""
    registered = await registered_bookies(WatchedNodes(store))
    found = dict.fromkeys(await all_bookies(store), BookieStatus.DOWN)
    found |= dict.fromkeys(registered.read_only, BookieStatus.READ_ONLY)
    found |= dict.fromkeys(registered.writable, BookieStatus.READ_WRITE)
    requested = set(states)
    return [
        await _with_address(store, bookie_id, state)
        for bookie_id, state in sorted(found.items())
        if state in requested
    ]


async def _with_address(
    store: MetadataStore, bookie_id: str, state: BookieStatus
) -> BookieOfCluster:
    if state is BookieStatus.DOWN:
        return BookieOfCluster(bookie_id, state)
    try:
        endpoint = await find_endpoint(store, bookie_id, BOOKIE_RPC)
    except BKBookieHandleNotAvailableException:
        # The bookie stopped after the list was read.
        return BookieOfCluster(bookie_id, BookieStatus.DOWN)
    return BookieOfCluster(bookie_id, state, endpoint.host, endpoint.port)


async def listledgers(
    client: BookKeeper, *, with_metadata: bool = False, bookie_id: str | None = None
) -> AsyncIterator[LedgerId | LedgerNode]:
    """Yield all ledgers of the cluster, or only those whose ensembles include the bookie."""
    async for ledger_ids in client.context.manager.ranges():
        for ledger_id in ledger_ids:
            if not with_metadata and bookie_id is None:
                yield LedgerId(ledger_id)
                continue
            try:
                node = await ledgermetadata(client, ledger_id)
            except BKNoSuchLedgerExistsOnMetadataServerException:
                # The ledger was deleted in the meantime.
                continue
            ensembles = (segment.ensemble for segment in node.metadata.segments)
            if bookie_id is None or any(bookie_id in ensemble for ensemble in ensembles):
                yield node if with_metadata else LedgerId(ledger_id)


async def ledgermetadata(client: BookKeeper, ledger_id: int) -> LedgerNode:
    """Return a ledger's metadata. Raises `BKNoSuchLedgerExistsOnMetadataServerException` if the
    ledger does not exist.
    """
    metadata, version = await client.context.manager.read(ledger_id)
    return LedgerNode(ledger_id, version, metadata)


async def readledger(
    client: BookKeeper, ledger_id: int, first: int = 0, last: int | None = None
) -> AsyncIterator[ReadEntry]:
    """Yield the confirmed entries from `first` to `last` (None: to the end) without fencing the
    ledger.

    Raises `BKNoSuchLedgerExistsOnMetadataServerException`, and any error raised by
    `LedgerReader.read`.
    """
    metadata = await client.ledger_metadata(ledger_id)
    reader = await client.open_ledger_no_recovery(
        ledger_id, digest_type=metadata.digest_type, password=metadata.password
    )
    confirmed = reader.last_add_confirmed
    last = confirmed if last is None else min(last, confirmed)
    async for entry in reader.read(max(first, 0), last):
        size = len(entry.payload)
        yield ReadEntry(ledger_id, entry.entry_id, entry.last_add_confirmed, size, entry.payload)


async def deleteledger(client: BookKeeper, ledger_id: int) -> LedgerDeleted:
    """Delete a ledger's metadata; the bookies' garbage collection then deletes its entries.

    Raises `BKNoSuchLedgerExistsOnMetadataServerException` if the ledger does not exist.
    """
    await client.delete_ledger(ledger_id)
    return LedgerDeleted(ledger_id)


async def simpletest(
    client: BookKeeper,
    ensemble_size: int = 3,
    write_quorum: int = 2,
    ack_quorum: int = 2,
    entry_count: int = 1000,
) -> SimpleTestPassed:
    """Write a ledger, close it and read it back.

    Raises `BKReadException` if an entry differs from what was written, and any error reported by
    the bookies.
    """
    writer = await client.create_ledger(ensemble_size, write_quorum, ack_quorum)
    ledger_id = writer.ledger_id
    for number in range(entry_count):
        await writer.drain()
        writer.add(_payload(number))
    await writer.all_confirmed()
    await writer.close()
    reader = await client.open_ledger(ledger_id)
    found_count = 0
    async for entry in reader.read():
        if entry.entry_id != found_count or entry.payload != _payload(found_count):
            raise BKReadException(
                f"entry {entry.entry_id} of ledger {ledger_id} differs from what was written"
            )
        found_count += 1
    if found_count != entry_count:
        raise BKReadException(
            f"ledger {ledger_id} has {found_count} entries, but {entry_count} were written"
        )
    return SimpleTestPassed(ledger_id, entry_count, reader.metadata.ensemble_at(0))


def _payload(number: int) -> bytes:
    return b"entry-%d" % number
