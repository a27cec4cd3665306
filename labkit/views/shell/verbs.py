"""A table of the verbs of `labkit shell`, with their options, help texts and functions.

To add a verb, add a row here and the function that it calls. The function returns one `Result`,
which formats itself as text, or several:

    the function returns                        `--json` prints
    one result                                  one indented document
    an iterator, async iterator or sequence     one object per line

Names and options match those of `bookkeeper shell`, except for labkit's own verbs. Importing this
module takes half a second, so `labkit` imports it only for the verb `shell`.
"""

from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.ledger_layout import HIERARCHICAL, LAYOUTS
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
from labkit.views.shell.options import Option, flag, option
from labkit.views.shell.rebuild import rebuild_index, write_index
from labkit.views.shell.records import RebuiltIndex
from labkit.views.shell.xray import file_spans
from labkit.views.xray.file_spans import format_spans
from labkit.worlds.live.disk import RealDisk

_DECIMAL, _HEXADECIMAL = 10, 16
_CRC32C_SIZE = 4


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb of the shell.

    `on_files` reads a bookie's files; `on_cluster` queries the cluster given by `--zookeeper`. If a
    verb has both, `--zookeeper` selects the cluster. A tuple in `options` is a group of mutually
    exclusive options. `check` raises `LabkitError` if the arguments are invalid, before the shell
    connects to the cluster. `confirm` returns a question to which the user must answer yes, or None
    if there is nothing to confirm; a verb that asks has an option `--force`. `text` formats results
    that are not instances of `Result`.
    """

    name: str
    help: str
    options: tuple[Option | tuple[Option, ...], ...] = ()
    on_files: Callable[[Namespace], object] | None = None
    on_cluster: Callable[[Namespace, BookKeeper], Any] | None = None
    check: Callable[[Namespace], object] | None = None
    confirm: Callable[[Namespace], str | None] | None = None
    text: Callable[[Any, bool], Iterable[str]] | None = None
    aliases: tuple[str, ...] = ()


_DATA_TOO = flag("-m", "also print the data of entries", dest="data_too")
_LEDGER = option("LEDGER", "ledger id (decimal)", type=int)
_LEDGER_ID = option(
    "-l -ledgerid --ledgerid LEDGER", "ledger id (decimal)", type=int, required=True
)
_LAYOUT = option(
    "--layout",
    "layout of ledger znodes (default: hierarchical)",
    choices=tuple(LAYOUTS),
    default=HIERARCHICAL.name,
)


def _file(interpretation: str, example: str) -> Option:
    return option("FILE", f"{interpretation}, or file name such as {example}")


def _count(letter: str, name: str, default: int, meaning: str) -> Option:
    usage, help_text = f"-{letter} -{name} --{name} N", f"{meaning} (default: {default})"
    return option(usage, help_text, type=int, default=default)


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
    if a.entry is not None and a.ledger is None:
        raise ShellError("-e requires -l, because entry ids are unique only within a ledger")
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


def _list_ledgers(a: Namespace) -> object:
    if a.meta or a.bookieid is not None:
        raise ShellError("-meta and -bookieid need the cluster's metadata: add --zookeeper")
    return list_ledgers(folders_of(a))


def _rebuild_index(a: Namespace) -> RebuiltIndex:
    folders, digest = folders_of(a), _digest(a)
    key = make_master_key(a.password.encode()) if a.password is not None else None
    directories = (*folders.journals, *folders.ledgers, *folders.indexes)
    roots = [Path(directory.path("")) for directory in directories]
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


def _check_entry_count(a: Namespace) -> None:
    if a.numEntries < 1:
        raise ShellError(f"the number of entries must be at least 1, got {a.numEntries}")


def _check_cookies_can_be_deleted(a: Namespace) -> None:
    if a.deleteCookie and (a.dryrun or a.skipOpenLedgers or a.ledger is not None):
        raise ShellError(
            "a bookie's cookie can be deleted only after all its ledgers have been recovered: use"
            " --deleteCookie without --ledger, --skipOpenLedgers and --dryrun"
        )


def _message_arguments(a: Namespace) -> tuple[MessageId, dict[str, BookieFolders]]:
    message_id, folders = MessageId.parse(a.id), {}
    for argument in a.bookies:
        bookie, equals, folder = argument.partition("=")
        if not equals:
            raise ShellError(f"expected BOOKIE=FOLDER, such as b0=/data/b0, got {argument!r}")
        folders[bookie] = open_data_folder(Path(folder))
    return message_id, folders


VERBS = (
    Verb(
        "readjournal",
        "print the records of a journal",
        (_DATA_TOO, _file("journal id (decimal)", "1a.txn")),
        on_files=_read_journal,
    ),
    Verb(
        "readlog",
        "print the entries of an entry log",
        (
            _DATA_TOO,
            _file("entry log id (decimal)", "1a.log"),
            option("-l --ledger LEDGER", "only entries of this ledger", type=int),
            option("-e --entry ENTRY", "only this entry of the ledger", type=int),
        ),
        on_files=_read_log,
    ),
    Verb(
        "readlogmetadata",
        "list the ledgers in an entry log, and how many bytes each has",
        (_file("entry log id (hexadecimal)", "1a.log"),),
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
            option("FIRST", "first entry (default: 0)", type=int, nargs="?", default=0),
            option("LAST", "last entry (default: the end)", type=int, nargs="?"),
        ),
        on_files=lambda a: read_ledger(folders_of(a), a.ledger, a.first, a.last, _digest(a)),
        on_cluster=lambda a, client: cluster.readledger(client, a.ledger, a.first, a.last),
    ),
    Verb(
        "ledger",
        "print a ledger's index: the location of each entry",
        (flag("-m", "also print the header of the index", dest="data_too"), _LEDGER),
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
            flag("-txn", "list journals (default: all kinds of files)"),
            flag("-log", "list entry logs"),
            flag("-idx", "list indexes"),
        ),
        on_files=_list_files,
    ),
    Verb(
        "listledgers",
        "list the ledgers in a bookie's files or in the cluster",
        (
            flag("-m -meta --meta", "also print metadata (needs --zookeeper)"),
            option(
                "-bookieid --bookieid BOOKIE", "only ledgers on this bookie (needs --zookeeper)"
            ),
        ),
        on_files=_list_ledgers,
        on_cluster=lambda a, client: cluster.listledgers(
            client, with_metadata=a.meta, bookie_id=a.bookieid
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
            flag("-dryRun --dry-run", "print the rebuilt index without writing it"),
            flag("--force", "ignore the DIRTY file of a BookKeeper bookie that was killed"),
        ),
        on_files=_rebuild_index,
    ),
    Verb(
        "xray",
        "decode every byte of a file into named fields",
        (option("FILE", "path of a *.txn, *.log, *.idx, lastMark, lastId or VERSION file"),),
        on_files=_xray,
        text=lambda span, _: [format_spans([span])],
    ),
    Verb(
        "initnewcluster",
        "create the znodes of a new cluster",
        (_LAYOUT,),
        on_cluster=lambda a, client: cluster.initnewcluster(client.store, a.layout),
    ),
    Verb(
        "metaformat",
        "delete all of a cluster's metadata, and create a new cluster",
        (_LAYOUT,),
        on_cluster=lambda a, client: cluster.metaformat(client.store, a.layout),
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
            flag("-rw --readwrite", "list writable bookies"),
            flag("-ro --readonly", "list read-only bookies"),
            flag("-a -all --all", "list all bookies, including those that are down"),
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
            option(
                "-mr --missingreplica BOOKIE", "only ledgers with missing copies on this bookie"
            ),
            option(
                "-emr --excludingmissingreplica BOOKIE",
                "no ledgers with missing copies on this bookie",
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
        on_cluster=lambda a, client: cluster.simpletest(
            client, a.ensemble, a.writeQuorum, a.ackQuorum, a.numEntries
        ),
        check=_check_entry_count,
    ),
    Verb(
        "autorecovery",
        "enable or disable autorecovery, or print whether it is enabled",
        (
            (
                flag("-e -enable --enable", "enable autorecovery"),
                flag("-d -disable --disable", "disable autorecovery"),
                flag("-status --status", "print whether it is enabled (default)"),
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
            option("BOOKIES", "ids of the lost bookies, comma-separated"),
            option("-l -ledger --ledger LEDGER", "only this ledger", type=int),
            flag("-sk --skipOpenLedgers", "skip open ledgers"),
            flag("-dr -dryrun --dryrun", "list the ledgers without copying anything"),
            flag(
                "-d -deleteCookie --deleteCookie",
                "then delete the cookies, because the bookies will not return",
            ),
        ),
        on_cluster=lambda a, client: repair.recover(
            client,
            a.bookies.split(","),
            ledger_id=a.ledger,
            skip_open=a.skipOpenLedgers,
            dry_run=a.dryrun,
            delete_cookies=a.deleteCookie,
        ),
        check=_check_cookies_can_be_deleted,
        confirm=lambda a: (
            None if a.dryrun else f"Recover the entries of {', '.join(a.bookies.split(','))}?"
        ),
    ),
    Verb(
        "decommissionbookie",
        "wait until no ledger needs a stopped bookie, then delete its cookie",
        (option("-bookieid --bookieid BOOKIE", "id of the bookie", required=True),),
        on_cluster=lambda a, client: repair.decommissionbookie(client, a.bookieid),
        confirm=lambda a: f"Remove {a.bookieid} from the cluster?",
        aliases=("decommission",),
    ),
    Verb(
        "messageid",
        "print where a message is stored, down to files and offsets",
        (
            flag("-m", "also decode the bytes of the message", dest="data_too"),
            option("ID", "MessageID, as ledger:entry:partition:batchIndex"),
            option(
                "BOOKIES",
                "id and data folder of each bookie, such as b0=/data/b0",
                nargs="+",
                metavar="BOOKIE=FOLDER",
            ),
        ),
        on_cluster=lambda a, client: find_lineage(client, *_message_arguments(a)),
        check=_message_arguments,
        text=lineage_lines,
    ),
)
