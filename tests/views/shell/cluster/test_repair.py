"""Tests the shell's verbs for handling lost bookies, with and without autorecovery."""

import random

import pytest

from labkit.system.autorecovery.underreplication import (
    LedgerUnderreplicationManager,
    UnavailableException,
)
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
from labkit.system.metadata.cluster import ClusterInUseError
from labkit.system.metadata.cookie import read_cookie
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.errors import BKLedgerClosedException, BKLedgerFencedException
from labkit.system.model.ledger import LedgerState
from labkit.views.shell.cluster import repair
from labkit.views.shell.cluster.records import CookieDeleted, LedgerRecovery, StillNeeded
from labkit.views.shell.folders import ShellError
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.node_process import NodeNotStartedError
from tests.until import until_true
from tests.views.shell.support import Ask

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAYLOADS = [b"payload %d" % number for number in range(20)]


async def written(client: BookKeeper, size: int = 2) -> int:
    """Write a closed ledger with every entry on all bookies of its ensemble; return its id."""
    writer = await client.create_ledger(size, size, size)
    for payload in PAYLOADS:
        writer.add(payload)
    await writer.all_confirmed()
    await writer.close()
    return writer.ledger_id


async def stop(cluster: LocalCluster, client: BookKeeper, bookie: str) -> None:
    """Shut down a bookie, and wait until the metadata store no longer lists it as writable."""
    await cluster.shut_down(bookie)

    async def is_missed() -> bool:
        return bookie not in await client.writable_bookies()

    await until_true(is_missed)


async def recovered(
    client: BookKeeper, bookie: str, *ledger_ids: int, skip_open: bool = False
) -> list[LedgerRecovery]:
    """Recover these ledgers one at a time; return the results."""
    return [
        ledger
        for ledger_id in ledger_ids
        async for ledger in repair.recover(
            client, [bookie], ledger_id=ledger_id, skip_open=skip_open
        )
        if isinstance(ledger, LedgerRecovery)
    ]


async def ensembles(client: BookKeeper, ledger_id: int) -> list[tuple[str, ...]]:
    metadata = await client.ledger_metadata(ledger_id)
    return [segment.ensemble for segment in metadata.segments]


async def payloads(client: BookKeeper, ledger_id: int) -> list[bytes]:
    reader = await client.open_ledger(ledger_id)
    return [entry.payload async for entry in reader.read()]


async def test_recovered_ledger_has_every_entry_on_another_bookie(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    ledger_id = await written(client)
    assert await ensembles(client, ledger_id) == [("b0", "b1")]
    await stop(cluster, client, "b0")
    assert await recovered(client, "b0", ledger_id) == [
        LedgerRecovery(ledger_id, 1, recovered=True)
    ]
    ((first, second),) = await ensembles(client, ledger_id)
    assert first not in ("b0", "b1")
    assert second == "b1"
    # The only other copy is unavailable, so the entries are read from the new copy.
    await stop(cluster, client, "b1")
    assert await payloads(client, ledger_id) == PAYLOADS
    assert await recovered(client, "b0", ledger_id) == []


async def test_dry_run_tells_and_changes_nothing(cluster: LocalCluster, client: BookKeeper) -> None:
    ledger_id = await written(client)
    await stop(cluster, client, "b0")
    before = await ensembles(client, ledger_id)
    told = [each async for each in repair.recover(client, ["b0"], dry_run=True)]
    assert LedgerRecovery(ledger_id, 1, recovered=False) in told
    assert await ensembles(client, ledger_id) == before


async def test_open_ledger_is_recovered_first_unless_it_should_be_skipped(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await writer.add(PAYLOADS[0])
    await stop(cluster, client, "b0")
    ledger_id = writer.ledger_id
    assert await recovered(client, "b0", ledger_id, skip_open=True) == []
    (ledger,) = await recovered(client, "b0", ledger_id)
    assert ledger.recovered
    assert (await client.ledger_metadata(ledger_id)).state is LedgerState.CLOSED
    assert all("b0" not in ensemble for ensemble in await ensembles(client, ledger_id))
    # Either exception can be raised: the bookies report that the ledger is fenced, and the
    # metadata, read to replace b0, says that it is closed.
    with pytest.raises((BKLedgerFencedException, BKLedgerClosedException)):
        await writer.add(PAYLOADS[1])
    assert await payloads(client, ledger_id) == PAYLOADS[:1]


async def test_ledger_that_cannot_be_recovered_is_named_with_the_reason(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    ledger_id = await written(client, size=5)
    await stop(cluster, client, "b0")
    (ledger,) = await recovered(client, "b0", ledger_id)
    assert not ledger.recovered
    assert ledger.error is not None
    assert "b0" in ledger.error


async def test_bookie_that_serves_is_neither_recovered_nor_struck_off(client: BookKeeper) -> None:
    for verb in (
        repair.recover(client, ["b0"]),
        repair.decommissionbookie(client, "b0"),
    ):
        with pytest.raises(ClusterInUseError, match=r"b0 \(still registered\)"):
            await anext(verb)


async def test_without_an_auditor_nothing_can_be_triggered(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    assert (await repair.whoisauditor(client)).bookie_id is None
    with pytest.raises(UnavailableException, match="there is no auditor"):
        await repair.triggeraudit(client)
    await stop(cluster, client, "b4")
    with pytest.raises(UnavailableException, match="there is no auditor"):
        await anext(repair.decommissionbookie(client, "b4"))


async def test_marks_are_listed_by_the_bookie_that_they_miss(client: BookKeeper) -> None:
    marks = LedgerUnderreplicationManager(client.store, "test", random.randrange, lambda: 1234)
    await marks.mark(7, ["a", "b"])
    await marks.mark(8, ["b"])

    async def listed(*options: str | None) -> list[int]:
        return [mark.ledger_id for mark in await repair.listunderreplicated(client, *options)]

    assert await listed() == [7, 8]
    assert await listed("a") == [7]
    assert await listed(None, "a") == [8]
    (first, _) = await repair.listunderreplicated(client)
    assert (first.missing_replicas, first.ctime_ms) == (("a", "b"), 1234)


async def test_verbs_print_what_they_find(cluster: LocalCluster, ask: Ask) -> None:
    zookeeper = cluster.zookeeper
    client = await cluster.connect(placement=in_name_order)
    marks = LedgerUnderreplicationManager(client.store, "test", random.randrange, lambda: 1234)
    await marks.mark(9, ["c"])
    for verb, expected in (
        ("whoisauditor", "No auditor elected\n"),
        ("autorecovery", "Autorecovery is enabled\n"),
        ("autorecovery -disable", "Autorecovery is disabled\n"),
        ("autorecovery -status", "Autorecovery is disabled\n"),
        ("autorecovery -enable", "Autorecovery is enabled\n"),
        ("listunderreplicated -mr c", "9\n\tCtime : 1234\n\tMissingReplica : c\n"),
    ):
        assert await ask(zookeeper, *verb.split()) == (0, expected, ""), verb
    for verb, reason in (
        ("triggeraudit", "there is no auditor: autorecovery is not running on any node"),
        ("recover b0 -f", "stop these bookies first: b0 (still registered)"),
        (
            "decommission -bookieid b0 -f",
            "stop these bookies first: b0 (still registered)",
        ),
        ("recover nobody -l 7 -d", "a bookie's cookie can be deleted only after all"),
        ("recover nobody -f", "the cluster has no bookie 'nobody'; `listbookies -a` lists"),
        ("recover nobody,b8 --dryrun", "the cluster has no bookie 'b8', 'nobody'"),
        ("recover nobody -f -d", "the cluster has no bookie 'nobody'"),
        ("decommission -bookieid nobody -f", "the cluster has no bookie 'nobody'"),
    ):
        code, output, errors = await ask(zookeeper, *verb.split())
        assert (code, output) == (1, "")
        assert errors.startswith(f"labkit: {reason}")
    client.close()


async def test_recovery_tells_each_ledger_and_fails_if_one_fails(
    cluster: LocalCluster, client: BookKeeper, ask: Ask
) -> None:
    good, bad = await written(client), await written(client, size=5)
    await stop(cluster, client, "b0")
    code, output, errors = await ask(cluster.zookeeper, "recover", "b0", "-f", "-d")
    assert code == 1
    assert f"Ledger {good}: 1 fragments recovered\n" in output
    assert f"labkit: ledger {bad} was not recovered: " in errors
    # The cookie is kept, because one ledger was not recovered.
    assert "deleted" not in output
    assert not await cookie_is_gone(client.store, "b0")
    await client.delete_ledger(bad)


async def test_switch_of_autorecovery_is_shown_and_moved_once(client: BookKeeper) -> None:
    assert (await repair.autorecovery(client)).enabled
    assert not (await repair.autorecovery(client, enable=False)).enabled
    with pytest.raises(UnavailableException, match="already disabled"):
        await repair.autorecovery(client, enable=False)
    assert (await repair.autorecovery(client, enable=True)).enabled
    with pytest.raises(UnavailableException, match="already enabled"):
        await repair.autorecovery(client, enable=True)


@pytest.mark.java
async def test_decommissioned_bookie_is_in_no_metadata_and_does_not_come_back() -> None:
    async with LocalCluster(4, autorecovery={}) as cluster:
        client = await cluster.connect(placement=in_name_order)
        ledger_id = await written(client)
        await until_auditor(client)
        await stop(cluster, client, "b0")
        *waiting, last = [each async for each in repair.decommissionbookie(client, "b0")]
        assert last == CookieDeleted("b0")
        assert all(isinstance(each, StillNeeded) for each in waiting)
        assert all("b0" not in ensemble for ensemble in await ensembles(client, ledger_id))
        assert await repair.listunderreplicated(client) == []
        assert await cookie_is_gone(client.store, "b0")
        with pytest.raises(NodeNotStartedError):
            await cluster.restart("b0")
        with pytest.raises(ShellError, match="has no bookie 'b0'"):
            await anext(repair.decommissionbookie(client, "b0"))
        # A bookie cannot be decommissioned while autorecovery is disabled.
        await repair.autorecovery(client, enable=False)
        with pytest.raises(UnavailableException, match="autorecovery is disabled"):
            await repair.triggeraudit(client)
        client.close()


async def until_auditor(client: BookKeeper) -> None:
    async def is_there() -> bool:
        return (await repair.whoisauditor(client)).bookie_id in await client.writable_bookies()

    await until_true(is_there)


async def cookie_is_gone(store: MetadataStore, bookie: str) -> bool:
    return await read_cookie(store, bookie) is None
