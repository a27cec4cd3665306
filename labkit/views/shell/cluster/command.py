"""Runs verbs about a cluster: opens a session with its metadata store, asks before the verb
destroys something, and calls it.
"""

import asyncio
import sys
import uuid
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.place import MetadataPlace, parse_place
from labkit.system.model.message_id import MessageId
from labkit.system.trace.recorder import Recorder
from labkit.views.shell.cluster import repair
from labkit.views.shell.cluster import state as cluster
from labkit.views.shell.cluster.records import BookieState
from labkit.views.shell.folders import ShellError, open_data_folder
from labkit.views.shell.lineage import find_lineage
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

_END = object()
ClusterVerb = Callable[[Namespace, BookKeeper], AsyncIterator[object]]


def run_on_cluster(arguments: Namespace) -> Iterator[object]:
    """The verb's results, one by one.

    Raises `ShellError`, and what the verb raises.
    """
    if arguments.zookeeper is None:
        raise ShellError(
            "name the cluster's metadata store: --zookeeper HOST:PORT, or zk+null://HOST:PORT/ledgers"
        )
    with asyncio.Runner() as runner:
        client, store = runner.run(_connect(parse_place(arguments.zookeeper)))
        values = CLUSTER_VERBS[arguments.shell_verb](arguments, client)
        try:
            while (value := runner.run(_next(values))) is not _END:
                yield value
        finally:
            client.close()
            runner.run(store.stop())


async def _next(values: AsyncIterator[object]) -> object:
    return await anext(values, _END)


async def _connect(place: MetadataPlace) -> tuple[BookKeeper, ZooKeeperStore]:
    store = ZooKeeperStore(place)
    await store.start()
    return new_client(store, Recorder("shell", trace_clock_us)), store


def _confirm(arguments: Namespace, question: str) -> None:
    """Raises `ShellError` unless the answer is yes."""
    if arguments.force:
        return
    sys.stderr.write(f"{question} (y/N) ")
    sys.stderr.flush()
    answer = "" if sys.stdin is None else sys.stdin.readline()  # None: it is closed (`<&-`).
    if answer.strip().lower() not in ("y", "yes"):
        raise ShellError("nothing was done; answer y, or add --force")


async def _initnewcluster(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    yield await cluster.initnewcluster(client.store, str(uuid.uuid4()), arguments.layout)


async def _metaformat(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    _confirm(arguments, f"Delete all ledgers and bookies that {arguments.zookeeper} knows?")
    yield await cluster.metaformat(client.store, str(uuid.uuid4()), arguments.layout)


async def _whatisinstanceid(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    yield await cluster.whatisinstanceid(client.store)


async def _listbookies(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    states = [BookieState.READ_WRITE] if arguments.readwrite else []
    states += [BookieState.READ_ONLY] if arguments.readonly else []
    if arguments.all:
        states = list(BookieState)
    default = (BookieState.READ_WRITE, BookieState.READ_ONLY)
    for bookie in await cluster.listbookies(client.store, states or default):
        yield bookie


async def _listledgers(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    async for ledger in cluster.listledgers(
        client, with_metadata=arguments.meta, bookie_id=arguments.bookieid
    ):
        yield ledger


async def _readledger(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    async for entry in cluster.readledger(
        client, arguments.ledger, arguments.first, arguments.last
    ):
        yield entry


async def _ledgermetadata(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    yield await cluster.ledgermetadata(client, arguments.ledgerid)


async def _deleteledger(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    _confirm(arguments, f"Delete ledger {arguments.ledgerid}?")
    yield await cluster.deleteledger(client, arguments.ledgerid)


async def _simpletest(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    yield await cluster.simpletest(
        client,
        arguments.ensemble,
        arguments.writeQuorum,
        arguments.ackQuorum,
        arguments.numEntries,
    )


async def _whoisauditor(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    yield await repair.whoisauditor(client)


async def _autorecovery(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    change = arguments.enable or arguments.disable
    yield await repair.autorecovery(client, arguments.enable if change else None)


async def _triggeraudit(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    yield await repair.triggeraudit(client)


async def _listunderreplicated(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    for mark in await repair.listunderreplicated(
        client, arguments.missingreplica, arguments.excludingmissingreplica
    ):
        yield mark


async def _recover(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    bookies = arguments.bookies.split(",")
    only_some = arguments.dryrun or arguments.skipOpenLedgers or arguments.ledger is not None
    if arguments.deleteCookie and only_some:
        raise ShellError("a bookie's cookie may go only when all of its ledgers are recovered")
    if not arguments.dryrun:
        _confirm(arguments, f"Recover what {', '.join(bookies)} had?")
    all_recovered = True
    async for ledger in repair.recover(
        client,
        bookies,
        ledger_id=arguments.ledger,
        skip_open=arguments.skipOpenLedgers,
        dry_run=arguments.dryrun,
    ):
        all_recovered &= ledger.recovered
        yield ledger
    if arguments.deleteCookie and all_recovered:
        async for deleted in repair.deletecookies(client, bookies):
            yield deleted


async def _decommissionbookie(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    _confirm(arguments, f"Remove {arguments.bookieid} from the cluster?")
    async for value in repair.decommissionbookie(client, arguments.bookieid):
        yield value


async def _messageid(arguments: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    folders = {}
    for named in arguments.bookies:
        bookie, equals, folder = named.partition("=")
        if not equals:
            raise ShellError(f"{named!r}: write BOOKIE=FOLDER, such as bookie-1=/data/bookie-1")
        folders[bookie] = open_data_folder(Path(folder))
    yield await find_lineage(client, MessageId.parse(arguments.id), folders)


CLUSTER_VERBS: dict[str, ClusterVerb] = {
    "initnewcluster": _initnewcluster,
    "metaformat": _metaformat,
    "whatisinstanceid": _whatisinstanceid,
    "listbookies": _listbookies,
    "listledgers": _listledgers,
    "readledger": _readledger,
    "ledgermetadata": _ledgermetadata,
    "deleteledger": _deleteledger,
    "simpletest": _simpletest,
    "whoisauditor": _whoisauditor,
    "autorecovery": _autorecovery,
    "triggeraudit": _triggeraudit,
    "listunderreplicated": _listunderreplicated,
    "recover": _recover,
    "decommissionbookie": _decommissionbookie,
    "decommission": _decommissionbookie,
    "messageid": _messageid,
}
MANY_ANSWERS = {
    "listbookies",
    "listledgers",
    "readledger",
    "listunderreplicated",
    "recover",
    "decommissionbookie",
    "decommission",
}
