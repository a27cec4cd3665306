"""A table of the verbs of `labkit shell`, with their options, help texts and functions.

To add a verb, add a row here and the function that it calls. The function returns one `Result`,
which formats itself as text, or several:

    the function returns                        `--json` prints
    one result                                  one indented document
    an iterator, async iterator or sequence     one object per line

Names and options match those of `bookkeeper shell`, except for labkit's own verbs. Importing this
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
from labkit.views.shell.cluster import repair
from labkit.views.shell.cluster import state as cluster
from labkit.views.shell.cluster.records import BookieStatus
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.entry_log import read_log, read_log_metadata
from labkit.views.shell.files import list_files
from labkit.views.shell.folders import (
    BookieFolders,
    ShellError,
    exclusive_access,
    open_data_folder,
    open_folders,
    parse_file_id,
)
from labkit.views.shell.journal import last_marks, read_journal
from labkit.views.shell.ledgers import list_ledgers, read_index, read_ledger
from labkit.views.shell.lineage import find_lineage, lineage_lines
from labkit.views.shell.rebuild import rebuild_index, write_index
from labkit.views.shell.records import RebuiltIndex
from labkit.views.shell.xray import file_spans
from labkit.views.xray.file_spans import format_spans
from labkit.worlds.live.disk import RealDisk

_DECIMAL, _HEXADECIMAL = 10, 16
_CRC32C_SIZE = 4
_LAYOUT_NAMES = ("hierarchical", "flat", "legacyhierarchical", "longhierarchical")


@dataclass(frozen=True, slots=True)
class Option:
    flags: tuple[str, ...]
    settings: dict[str, Any]


def _option(*flags: str, **settings: Any) -> Option:
    return Option(flags, settings)


def _flag(*flags: str, **settings: Any) -> Option:
    return Option(flags, {"action": "store_true", **settings})


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the shell.

    `on_files` reads a bookie's files; `on_cluster` queries the cluster given by `--zookeeper`. If a
    verb has both, `--zookeeper` selects the cluster. A tuple in `options` is a group of mutually
    exclusive options. `refuse` checks the arguments before anything is opened or connected. If the
    arguments are invalid, `refuse` returns an error message or raises `LabkitError`; otherwise, it
    returns None. `confirm` returns a question to which the user must answer yes, or None if there
    is nothing to confirm; a verb that asks has an option `--force`. `text` formats results that are
    not instances of `Result`.
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


_DATA_TOO = _flag("-m", dest="data_too", help="also print the data of entries")
_LEDGER = _option("ledger", type=int, metavar="LEDGER", help="ledger id (decimal)")
_LEDGER_ID = _option(
    "-l",
    "-ledgerid",
    "--ledgerid",
    type=int,
    required=True,
    metavar="LEDGER",
    help="ledger id (decimal)",
)
_LAYOUT = _option(
    "--layout",
    choices=_LAYOUT_NAMES,
    help="layout of ledger znodes (default: hierarchical)",
)


def _count(letter: str, name: str, default: int, meaning: str) -> Option:
    return _option(
        f"-{letter}",
        f"-{name}",
        f"--{name}",
        type=int,
        default=default,
        metavar="N",
        help=f"{meaning} (default: {default})",
    )


def folders_of(a: Namespace) -> BookieFolders:
    """Open the bookie's directories given by the options. Raises `ShellError` if none are given, or
    if a directory does not exist.
    """
    has_directories = a.journal or a.ledgers or a.index
    if a.data is not None and not has_directories:
        return open_data_folder(a.data)
    if a.data is None and has_directories:
        return open_folders(a.journal or [], a.ledgers or [], a.index or [])
    raise ShellError("specify the bookie's directories: either --data, or --journal and --ledgers")


def _digest(a: Namespace) -> Digest | None:
    if a.digest is None:
        return None
    if a.digest == "hmac" and a.password is None:
        raise ShellError("--digest hmac requires the ledger's password (--password)")
    return make_digest(DigestType[a.digest.upper()], (a.password or "").encode())


def _read_journal(a: Namespace) -> object:
    file_id = parse_file_id(a.file, ".txn", _DECIMAL)
    return read_journal(folders_of(a), file_id, _digest(a))


def _read_log(a: Namespace) -> object:
    file_id = parse_file_id(a.file, ".log", _DECIMAL)
    return read_log(folders_of(a), file_id, a.ledger, a.entry, _digest(a))


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
    with exclusive_access(roots, even_if_dirty=a.force):
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
        return (
            "a bookie's cookie can be deleted only after all its ledgers have been recovered: use"
            " --deleteCookie without --ledger, --skipOpenLedgers and --dryrun"
        )
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


def _message_arguments(a: Namespace) -> tuple[MessageId, dict[str, BookieFolders]]:
    folders = {}
    for argument in a.bookies:
        bookie, equals, folder = argument.partition("=")
        if not equals:
            raise ShellError(f"expected BOOKIE=FOLDER, such as b0=/data/b0, got {argument!r}")
        folders[bookie] = open_data_folder(Path(folder))
    return MessageId.parse(a.id), folders


def _check_message_arguments(a: Namespace) -> None:
    _message_arguments(a)


VERBS = (
    Verb(
        "readjournal",
        "print the records of a journal",
        (
            _DATA_TOO,
            _option(
                "file", metavar="FILE", help="journal id (decimal), or file name such as 1a.txn"
            ),
        ),
        on_files=_read_journal,
    ),
    Verb(
        "readlog",
        "print the entries of an entry log",
        (
            _DATA_TOO,
            _option(
                "file", metavar="FILE", help="entry log id (decimal), or file name such as 1a.log"
            ),
            _option(
                "-l", "--ledger", type=int, metavar="LEDGER", help="only entries of this ledger"
            ),
            _option(
                "-e", "--entry", type=int, metavar="ENTRY", help="only this entry of the ledger"
            ),
        ),
        on_files=_read_log,
        refuse=lambda a: (
            "-e requires -l, because entry ids are unique only within a ledger"
            if a.entry is not None and a.ledger is None
            else None
        ),
    ),
    Verb(
        "readlogmetadata",
        "list the ledgers in an entry log, and how many bytes each has",
        (
            _option(
                "file",
                metavar="FILE",
                help="entry log id (hexadecimal), or file name such as 1a.log",
            ),
        ),
        on_files=lambda a: read_log_metadata(
            folders_of(a), parse_file_id(a.file, ".log", _HEXADECIMAL)
        ),
    ),
    Verb(
        "readledger",
        "print a ledger's entries, from a bookie's files or from the cluster",
        (
            _DATA_TOO,
            _LEDGER,
            _option(
                "first",
                type=int,
                nargs="?",
                default=0,
                metavar="FIRST",
                help="first entry (default: 0)",
            ),
            _option(
                "last", type=int, nargs="?", metavar="LAST", help="last entry (default: the end)"
            ),
        ),
        on_files=lambda a: read_ledger(folders_of(a), a.ledger, a.first, a.last, _digest(a)),
        on_cluster=lambda a, client: cluster.readledger(client, a.ledger, a.first, a.last),
    ),
    Verb(
        "ledger",
        "print a ledger's index: the location of each entry",
        (_flag("-m", dest="data_too", help="also print the header of the index"), _LEDGER),
        on_files=lambda a: read_index(folders_of(a), a.ledger),
    ),
    Verb(
        "lastmark",
        "print LastLogMark of each journal directory",
        on_files=lambda a: last_marks(folders_of(a)),
    ),
    Verb(
        "listfilesondisc",
        "list journals, entry logs and indexes",
        (
            _flag("-txn", help="list journals (default: all kinds of files)"),
            _flag("-log", help="list entry logs"),
            _flag("-idx", help="list indexes"),
        ),
        on_files=_list_files,
    ),
    Verb(
        "listledgers",
        "list the ledgers in a bookie's files or in the cluster",
        (
            _flag("-m", "-meta", "--meta", help="also print metadata (needs --zookeeper)"),
            _option(
                "-bookieid",
                "--bookieid",
                metavar="BOOKIE",
                help="only ledgers on this bookie (needs --zookeeper)",
            ),
        ),
        on_files=lambda a: list_ledgers(folders_of(a)),
        on_cluster=lambda a, client: cluster.listledgers(
            client, with_metadata=a.meta, bookie_id=a.bookieid
        ),
        refuse=lambda a: (
            "-meta and -bookieid need the cluster's metadata: add --zookeeper"
            if a.zookeeper is None and (a.meta or a.bookieid is not None)
            else None
        ),
    ),
    Verb(
        "localconsistencycheck",
        "check that every location in the indexes refers to the right entry",
        on_files=lambda a: check_consistency(folders_of(a), _digest(a)),
    ),
    Verb(
        "rebuildindex",
        "rebuild a ledger's index from its journals and entry logs",
        (
            _LEDGER,
            _flag("-dryRun", "--dry-run", help="print the rebuilt index without writing it"),
            _flag("--force", help="ignore the DIRTY file of a BookKeeper bookie that was killed"),
        ),
        on_files=_rebuild_index,
    ),
    Verb(
        "xray",
        "decode every byte of a file into named fields",
        (
            _option(
                "file",
                metavar="FILE",
                help="path of a *.txn, *.log, *.idx, lastMark, lastId or VERSION file",
            ),
        ),
        on_files=_xray,
        text=lambda span, _: [format_spans([span])],
    ),
    Verb(
        "initnewcluster",
        "create the znodes of a new cluster",
        (_LAYOUT,),
        on_cluster=lambda a, client: cluster.initnewcluster(
            client.store, str(uuid.uuid4()), a.layout
        ),
    ),
    Verb(
        "metaformat",
        "delete all of a cluster's metadata, and create a new cluster",
        (_LAYOUT,),
        on_cluster=lambda a, client: cluster.metaformat(client.store, str(uuid.uuid4()), a.layout),
        confirm=lambda a: f"Delete all metadata of the cluster at {a.zookeeper}?",
    ),
    Verb(
        "whatisinstanceid",
        "print the cluster's instance id",
        on_cluster=lambda _, client: cluster.whatisinstanceid(client.store),
    ),
    Verb(
        "listbookies",
        "list the cluster's bookies (default: those that are registered)",
        (
            _flag("-rw", "--readwrite", help="list writable bookies"),
            _flag("-ro", "--readonly", help="list read-only bookies"),
            _flag("-a", "-all", "--all", help="list all bookies, including those that are down"),
        ),
        on_cluster=lambda a, client: cluster.listbookies(client.store, _statuses(a)),
    ),
    Verb(
        "whoisauditor",
        "print which bookie is the auditor",
        on_cluster=lambda _, client: repair.whoisauditor(client),
    ),
    Verb(
        "listunderreplicated",
        "list the under-replicated ledgers",
        (
            _option(
                "-mr",
                "--missingreplica",
                metavar="BOOKIE",
                help="only ledgers with missing copies on this bookie",
            ),
            _option(
                "-emr",
                "--excludingmissingreplica",
                metavar="BOOKIE",
                help="no ledgers with missing copies on this bookie",
            ),
        ),
        on_cluster=lambda a, client: repair.listunderreplicated(
            client, a.missingreplica, a.excludingmissingreplica
        ),
    ),
    Verb(
        "ledgermetadata",
        "print a ledger's metadata",
        (_LEDGER_ID,),
        on_cluster=lambda a, client: cluster.ledgermetadata(client, a.ledgerid),
    ),
    Verb(
        "deleteledger",
        "delete a ledger and its entries",
        (_LEDGER_ID,),
        on_cluster=lambda a, client: cluster.deleteledger(client, a.ledgerid),
        confirm=lambda a: f"Delete ledger {a.ledgerid}?",
    ),
    Verb(
        "simpletest",
        "create a ledger, write entries and read them back",
        (
            _count("e", "ensemble", 3, "ensemble size"),
            _count("w", "writeQuorum", 2, "write quorum"),
            _count("a", "ackQuorum", 2, "ack quorum"),
            _count("n", "numEntries", 1000, "number of entries"),
        ),
        on_cluster=_simpletest,
        refuse=lambda a: (
            f"the number of entries must be at least 1, got {a.numEntries}"
            if a.numEntries < 1
            else None
        ),
    ),
    Verb(
        "autorecovery",
        "enable or disable autorecovery, or print whether it is enabled",
        (
            (
                _flag("-e", "-enable", "--enable", help="enable autorecovery"),
                _flag("-d", "-disable", "--disable", help="disable autorecovery"),
                _flag("-status", "--status", help="print whether it is enabled (default)"),
            ),
        ),
        on_cluster=lambda a, client: repair.autorecovery(
            client, a.enable if a.enable or a.disable else None
        ),
    ),
    Verb(
        "triggeraudit",
        "make the auditor look for lost bookies now",
        on_cluster=lambda _, client: repair.triggeraudit(client),
    ),
    Verb(
        "recover",
        "copy the entries of lost bookies to other bookies",
        (
            _option("bookies", metavar="BOOKIES", help="ids of the lost bookies, comma-separated"),
            _option(
                "-l", "-ledger", "--ledger", type=int, metavar="LEDGER", help="only this ledger"
            ),
            _flag("-sk", "--skipOpenLedgers", help="skip open ledgers"),
            _flag("-dr", "-dryrun", "--dryrun", help="list the ledgers without copying anything"),
            _flag(
                "-d",
                "-deleteCookie",
                "--deleteCookie",
                help="then delete the cookies, because the bookies will not return",
            ),
        ),
        on_cluster=_recover,
        refuse=_cookie_too_early,
        confirm=lambda a: (
            None if a.dryrun else f"Recover the entries of {', '.join(a.bookies.split(','))}?"
        ),
    ),
    Verb(
        "decommissionbookie",
        "wait until no ledger needs a stopped bookie, then delete its cookie",
        (
            _option(
                "-bookieid", "--bookieid", required=True, metavar="BOOKIE", help="id of the bookie"
            ),
        ),
        on_cluster=lambda a, client: repair.decommissionbookie(client, a.bookieid),
        confirm=lambda a: f"Remove {a.bookieid} from the cluster?",
        aliases=("decommission",),
    ),
    Verb(
        "messageid",
        "print where a message is stored, down to files and offsets",
        (
            _flag("-m", dest="data_too", help="also decode the bytes of the message"),
            _option("id", metavar="ID", help="MessageID, as ledger:entry:partition:batchIndex"),
            _option(
                "bookies",
                nargs="+",
                metavar="BOOKIE=FOLDER",
                help="id and data folder of each bookie, such as b0=/data/b0",
            ),
        ),
        on_cluster=lambda a, client: find_lineage(client, *_message_arguments(a)),
        refuse=_check_message_arguments,
        text=lineage_lines,
    ),
)
