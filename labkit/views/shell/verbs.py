"""The verbs of `labkit shell`: one row each, from which help, arguments, call and output come.

A new verb is a row here and the function that it calls.  That function returns a `Result`, which
has its own text, or a stream or sequence of them:

    the function returns                        `--json` prints
    one result                                  one document, indented
    an iterator, async iterator or sequence     one object on each line

Names and options are those of `bookkeeper shell`, except for labkit's own verbs.  Importing this
module takes half a second, so `labkit` imports it only for the verb `shell`.
"""

import uuid
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.entry import Digest, DigestType, make_digest, make_master_key
from labkit.system.model.message_id import MessageId
from labkit.system.storage.xray import format_spans
from labkit.views.shell.cluster import repair
from labkit.views.shell.cluster import state as cluster
from labkit.views.shell.cluster.records import BookieStatus
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.entry_log import read_log, read_log_metadata
from labkit.views.shell.files import list_files
from labkit.views.shell.folders import (
    BookieFolders,
    ShellError,
    open_data_folder,
    open_folders,
    parse_file_id,
    sole_use,
)
from labkit.views.shell.journal import last_marks, read_journal
from labkit.views.shell.ledgers import list_ledgers, read_index, read_ledger
from labkit.views.shell.lineage import find_lineage, lineage_lines
from labkit.views.shell.rebuild import rebuild_index, write_index
from labkit.views.shell.records import RebuiltIndex
from labkit.views.shell.xray import file_spans
from labkit.worlds.live.disk import RealDisk

_DECIMAL, _HEXADECIMAL = 10, 16
_CRC32C_SIZE = 4
_LAYOUT_NAMES = ("hierarchical", "flat", "legacyhierarchical", "longhierarchical")


@dataclass(frozen=True, slots=True)
class Option:
    """The arguments of `ArgumentParser.add_argument`."""

    flags: tuple[str, ...]
    settings: dict[str, Any]


def _option(*flags: str, **settings: Any) -> Option:
    return Option(flags, settings)


def _flag(*flags: str, **settings: Any) -> Option:
    return Option(flags, {"action": "store_true", **settings})


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb.

    `on_files` reads a bookie's files; `on_cluster` asks the cluster of `--zookeeper`.  A verb with
    both asks the cluster if `--zookeeper` is given.  A tuple among the `options` is a group of
    which only one may be given.  `refuse` says what is wrong with a combination of options, or
    returns None.  `confirm` returns the question that the user must answer with yes, or None; such
    a verb has an option `--force`.  `text` returns the lines of results that are not a `Result`.
    """

    name: str
    help: str
    options: tuple[Option | tuple[Option, ...], ...] = ()
    on_files: Callable[[Namespace], object] | None = None
    on_cluster: Callable[[Namespace, BookKeeper], Any] | None = None
    refuse: Callable[[Namespace], str | None] | None = None
    confirm: Callable[[Namespace], str | None] | None = None
    text: Callable[[Any, bool], Iterable[str]] | None = None
    aliases: tuple[str, ...] = ()


_DATA_TOO = _flag("-m", dest="data_too", help="print the entries")
_LEDGER = _option("ledger", type=int)
_LEDGER_ID = _option("-l", "-ledgerid", "--ledgerid", type=int, required=True, help="decimal")
_LAYOUT = _option("--layout", choices=_LAYOUT_NAMES, help="(hierarchical)")


def _count(letter: str, name: str, default: int) -> Option:
    return _option(
        f"-{letter}", f"-{name}", f"--{name}", type=int, default=default, help=f"({default})"
    )


def folders_of(a: Namespace) -> BookieFolders:
    """Return the bookie's directories that the options name.  Raises `ShellError`."""
    named = a.journal or a.ledgers or a.index
    if a.data is not None and not named:
        return open_data_folder(a.data)
    if a.data is None and named:
        return open_folders(a.journal or [], a.ledgers or [], a.index or [])
    raise ShellError("name the bookie's files: either --data, or --journal and --ledgers")


def _digest(a: Namespace) -> Digest | None:
    if a.digest is None:
        return None
    if a.digest == "hmac" and a.password is None:
        raise ShellError("--digest hmac needs the ledger's --password")
    return make_digest(DigestType[a.digest.upper()], (a.password or "").encode())


def _read_journal(a: Namespace) -> object:
    wanted = parse_file_id(a.file, ".txn", _DECIMAL)
    return read_journal(folders_of(a), wanted, _digest(a))


def _read_log(a: Namespace) -> object:
    wanted = parse_file_id(a.file, ".log", _DECIMAL)
    return read_log(folders_of(a), wanted, a.ledger, a.entry, _digest(a))


def _list_files(a: Namespace) -> object:
    every = not (a.txn or a.log or a.idx)
    return list_files(
        folders_of(a),
        journals=every or a.txn,
        entry_logs=every or a.log,
        indexes=every or a.idx,
    )


def _rebuild_index(a: Namespace) -> RebuiltIndex:
    folders, digest = folders_of(a), _digest(a)
    key = make_master_key(a.password.encode()) if a.password is not None else None
    directories = (*folders.journals, *folders.ledgers, *folders.indexes)
    roots = [Path(directory.name) for directory in directories]
    with sole_use(roots, even_if_dirty=a.force):
        rebuilt = rebuild_index(folders, a.ledger, key, digest)
        if not a.dry_run:
            write_index(RealDisk(Path(rebuilt.directory)), rebuilt)
    return rebuilt


def _xray(a: Namespace) -> object:
    digest = _digest(a)
    return file_spans(Path(a.file), digest.size if digest else _CRC32C_SIZE)


def _statuses(a: Namespace) -> Iterable[BookieStatus]:
    if a.all:
        return BookieStatus
    chosen = [BookieStatus.READ_WRITE] if a.readwrite else []
    chosen += [BookieStatus.READ_ONLY] if a.readonly else []
    return chosen or (BookieStatus.READ_WRITE, BookieStatus.READ_ONLY)


def _simpletest(a: Namespace, client: BookKeeper) -> object:
    return cluster.simpletest(client, a.ensemble, a.writeQuorum, a.ackQuorum, a.numEntries)


def _cookie_too_early(a: Namespace) -> str | None:
    if a.deleteCookie and (a.dryrun or a.skipOpenLedgers or a.ledger is not None):
        return "a bookie's cookie may go only when all of its ledgers are recovered"
    return None


async def _recover(a: Namespace, client: BookKeeper) -> AsyncIterator[object]:
    bookies = a.bookies.split(",")
    all_recovered = True
    async for ledger in repair.recover(
        client, bookies, ledger_id=a.ledger, skip_open=a.skipOpenLedgers, dry_run=a.dryrun
    ):
        all_recovered &= ledger.recovered
        yield ledger
    if a.deleteCookie and all_recovered:
        async for deleted in repair.deletecookies(client, bookies):
            yield deleted


def _find_message(a: Namespace, client: BookKeeper) -> object:
    folders = {}
    for named in a.bookies:
        bookie, equals, folder = named.partition("=")
        if not equals:
            raise ShellError(f"{named!r}: write BOOKIE=FOLDER, such as bookie-1=/data/bookie-1")
        folders[bookie] = open_data_folder(Path(folder))
    return find_lineage(client, MessageId.parse(a.id), folders)


VERBS = (
    Verb(
        "readjournal",
        "records of a journal",
        (_DATA_TOO, _option("file", help="decimal id, or name.txn")),
        on_files=_read_journal,
    ),
    Verb(
        "readlog",
        "entries of an entry log",
        (
            _DATA_TOO,
            _option("file", help="decimal id, or name.log"),
            _option("-l", "--ledger", type=int, help="only of this ledger"),
            _option("-e", "--entry", type=int, help="only this entry"),
        ),
        on_files=_read_log,
        refuse=lambda a: (
            "-e needs -l: entry ids count within a ledger"
            if a.entry is not None and a.ledger is None
            else None
        ),
    ),
    Verb(
        "readlogmetadata",
        "the ledgers in an entry log",
        (_option("file", help="hexadecimal id, or name.log"),),
        on_files=lambda a: read_log_metadata(
            folders_of(a), parse_file_id(a.file, ".log", _HEXADECIMAL)
        ),
    ),
    Verb(
        "readledger",
        "a ledger's entries, from a bookie's files or those of --zookeeper",
        (
            _DATA_TOO,
            _LEDGER,
            _option("first", type=int, nargs="?", default=0),
            _option("last", type=int, nargs="?"),
        ),
        on_files=lambda a: read_ledger(folders_of(a), a.ledger, a.first, a.last, _digest(a)),
        on_cluster=lambda a, client: cluster.readledger(client, a.ledger, a.first, a.last),
    ),
    Verb(
        "ledger",
        "a ledger's index",
        (_flag("-m", dest="data_too", help="print its header too"), _LEDGER),
        on_files=lambda a: read_index(folders_of(a), a.ledger),
    ),
    Verb(
        "lastmark",
        "LastLogMark of each journal directory",
        on_files=lambda a: last_marks(folders_of(a)),
    ),
    Verb(
        "listfilesondisc",
        "journals, entry logs and indexes",
        tuple(
            _flag(f"-{kind}", help=f"*.{kind} (default: all kinds)")
            for kind in ("txn", "log", "idx")
        ),
        on_files=_list_files,
    ),
    Verb(
        "listledgers",
        "the ledgers that this bookie stores, or those of --zookeeper",
        (
            _flag("-m", "-meta", "--meta", help="print metadata"),
            _option("-bookieid", "--bookieid", help="only those on this bookie"),
        ),
        on_files=lambda a: list_ledgers(folders_of(a)),
        on_cluster=lambda a, client: cluster.listledgers(
            client, with_metadata=a.meta, bookie_id=a.bookieid
        ),
        refuse=lambda a: (
            "-meta and -bookieid ask the cluster's metadata: add --zookeeper"
            if a.zookeeper is None and (a.meta or a.bookieid is not None)
            else None
        ),
    ),
    Verb(
        "localconsistencycheck",
        "check that every index points to its entries",
        on_files=lambda a: check_consistency(folders_of(a), _digest(a)),
    ),
    Verb(
        "rebuildindex",
        "rebuild a ledger's index; fences if unsure",
        (
            _LEDGER,
            _flag("-dryRun", "--dry-run", help="write nothing"),
            _flag("--force", help="even if there is a DIRTY file"),
        ),
        on_files=_rebuild_index,
    ),
    Verb(
        "xray",
        "every byte of a file, named",
        (_option("file", help="path of *.txn, *.log, *.idx, lastMark, lastId or VERSION"),),
        on_files=_xray,
        text=lambda span, _: [format_spans([span])],
    ),
    Verb(
        "initnewcluster",
        "create the nodes of a new cluster",
        (_LAYOUT,),
        on_cluster=lambda a, client: cluster.initnewcluster(
            client.store, str(uuid.uuid4()), a.layout
        ),
    ),
    Verb(
        "metaformat",
        "delete a cluster's whole metadata",
        (_LAYOUT,),
        on_cluster=lambda a, client: cluster.metaformat(client.store, str(uuid.uuid4()), a.layout),
        confirm=lambda a: f"Delete all ledgers and bookies that {a.zookeeper} knows?",
    ),
    Verb(
        "whatisinstanceid",
        "the cluster's instance id",
        on_cluster=lambda _, client: cluster.whatisinstanceid(client.store),
    ),
    Verb(
        "listbookies",
        "the cluster's bookies (default: those alive)",
        (
            _flag("-rw", "--readwrite", help="those that take writes"),
            _flag("-ro", "--readonly", help="those that are read-only"),
            _flag("-a", "-all", "--all", help="those with a cookie"),
        ),
        on_cluster=lambda a, client: cluster.listbookies(client.store, _statuses(a)),
    ),
    Verb(
        "whoisauditor",
        "the bookie that is the auditor",
        on_cluster=lambda _, client: repair.whoisauditor(client),
    ),
    Verb(
        "listunderreplicated",
        "ledgers that are short of copies",
        (
            _option("-mr", "--missingreplica", metavar="BOOKIE", help="only of this bookie"),
            _option(
                "-emr",
                "--excludingmissingreplica",
                metavar="BOOKIE",
                help="without those of this bookie",
            ),
        ),
        on_cluster=lambda a, client: repair.listunderreplicated(
            client, a.missingreplica, a.excludingmissingreplica
        ),
    ),
    Verb(
        "ledgermetadata",
        "a ledger's metadata",
        (_LEDGER_ID,),
        on_cluster=lambda a, client: cluster.ledgermetadata(client, a.ledgerid),
    ),
    Verb(
        "deleteledger",
        "delete a ledger, and with it its entries",
        (_LEDGER_ID,),
        on_cluster=lambda a, client: cluster.deleteledger(client, a.ledgerid),
        confirm=lambda a: f"Delete ledger {a.ledgerid}?",
    ),
    Verb(
        "simpletest",
        "create a ledger, write entries and read them back",
        (
            _count("e", "ensemble", 3),
            _count("w", "writeQuorum", 2),
            _count("a", "ackQuorum", 2),
            _count("n", "numEntries", 1000),
        ),
        on_cluster=_simpletest,
    ),
    Verb(
        "autorecovery",
        "enable or disable the repair of ledgers (default: show)",
        (
            (
                _flag("-e", "-enable", "--enable"),
                _flag("-d", "-disable", "--disable"),
                _flag("-status", "--status", help="(default)"),
            ),
        ),
        on_cluster=lambda a, client: repair.autorecovery(
            client, a.enable if a.enable or a.disable else None
        ),
    ),
    Verb(
        "triggeraudit",
        "let the auditor look for lost bookies now",
        on_cluster=lambda _, client: repair.triggeraudit(client),
    ),
    Verb(
        "recover",
        "copy the entries of lost bookies to others",
        (
            _option("bookies", help="their ids, separated by commas"),
            _option("-l", "-ledger", "--ledger", type=int, help="only this ledger"),
            _flag("-sk", "--skipOpenLedgers", help="leave open ones"),
            _flag("-dr", "-dryrun", "--dryrun", help="only tell which"),
            _flag("-d", "-deleteCookie", "--deleteCookie", help="they do not come back"),
        ),
        on_cluster=_recover,
        refuse=_cookie_too_early,
        confirm=lambda a: (
            None if a.dryrun else f"Recover what {', '.join(a.bookies.split(','))} had?"
        ),
    ),
    Verb(
        "decommissionbookie",
        "wait until no ledger needs a stopped bookie, then remove it",
        (_option("-bookieid", "--bookieid", required=True, help="its id"),),
        on_cluster=lambda a, client: repair.decommissionbookie(client, a.bookieid),
        confirm=lambda a: f"Remove {a.bookieid} from the cluster?",
        aliases=("decommission",),
    ),
    Verb(
        "messageid",
        "show where a message is stored, down to files and offsets",
        (
            _flag("-m", dest="data_too", help="also name its bytes"),
            _option("id", help="ledger:entry:partition:batchIndex"),
            _option("bookies", nargs="+", metavar="BOOKIE=FOLDER", help="as --data of each"),
        ),
        on_cluster=_find_message,
        text=lineage_lines,
    ),
)
