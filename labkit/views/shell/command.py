"""`labkit shell`: finds the directories or the cluster, calls the verb, prints its results.

The exit code is 0, or 1 when something is missing, damaged or inconsistent, with one line that says
what and where.
"""

import json
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from labkit.system.model.entry import Digest, DigestType, make_digest, make_master_key
from labkit.system.model.errors import LabkitError
from labkit.views.shell.as_json import as_plain
from labkit.views.shell.cluster.command import CLUSTER_VERBS, MANY_ANSWERS, run_on_cluster
from labkit.views.shell.cluster.records import LedgerRecovery
from labkit.views.shell.cluster.text import as_lines
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
from labkit.views.shell.rebuild import rebuild_index, write_index
from labkit.views.shell.records import ConsistencyReport, Damage, LastMark, StoredEntry
from labkit.views.shell.xray import file_spans
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.live.host.os_error_advice import with_advice
from labkit.worlds.live.host.printable import printable
from labkit.worlds.live.host.safe_output import print_error

_DECIMAL, _HEXADECIMAL = 10, 16
_CRC32C_SIZE = 4


def run_shell(arguments: Namespace, say: Callable[[str], None]) -> int:
    """Run one verb, whose lines `say` prints at once; returns the exit code."""
    problems = 0
    try:
        for value in VERBS[arguments.shell_verb](arguments):
            _print(value, arguments, say)
            for problem in _problems_of(value):
                problems += 1
                print_error(f"labkit: {problem}")
    except (LabkitError, OSError) as error:
        print_error(f"labkit: {with_advice(error)}")
        return 1
    return 1 if problems else 0


def _print(value: object, arguments: Namespace, say: Callable[[str], None]) -> None:
    with_data = getattr(arguments, "data_too", False)
    if not arguments.json:
        for line in as_lines(value, with_data):
            say(printable(line, kept="\t"))  # A name with a line feed must not look like two lines.
        return
    plain = as_plain(value, with_data=with_data)
    one_document = arguments.shell_verb in _ONE_DOCUMENT
    say(json.dumps(plain, indent=2 if one_document else None))


def _problems_of(value: object) -> Iterator[str]:
    if isinstance(value, Damage):
        yield str(value)
    elif isinstance(value, StoredEntry) and value.digest_matches is False:
        yield (
            f"{value.file}, offset {value.offset}: the digest of entry {value.entry_id} of ledger"
            f" {value.ledger_id} does not match"
        )
    elif isinstance(value, LastMark):
        bad = [copy.file for copy in value.copies if copy.journal_id is None]
        yield from (f"{file}: not 16 bytes long, or negative, so it does not count" for file in bad)
    elif isinstance(value, LedgerRecovery) and value.error is not None:
        yield f"ledger {value.ledger_id} is not recovered: {value.error}"
    elif isinstance(value, ConsistencyReport) and value.errors:
        yield f"{len(value.errors)} errors; the first: {value.errors[0]}"


def _folders(arguments: Namespace) -> BookieFolders:
    named = arguments.journal or arguments.ledgers or arguments.index
    if arguments.data is not None and not named:
        return open_data_folder(arguments.data)
    if arguments.data is None and named:
        return open_folders(arguments.journal or [], arguments.ledgers or [], arguments.index or [])
    raise ShellError("name the bookie's files: either --data, or --journal and --ledgers")


def _asks_the_cluster(arguments: Namespace) -> bool:
    """Whether a verb for both asks the cluster.  Raises `ShellError` when a bookie's files are
    named too.
    """
    if arguments.zookeeper is None:
        return False
    if arguments.data or arguments.journal or arguments.ledgers or arguments.index:
        raise ShellError(
            f"{arguments.shell_verb} reads a bookie's files, or asks --zookeeper: name one of them"
        )
    return True


def _digest(arguments: Namespace) -> Digest | None:
    if arguments.digest is None:
        return None
    if arguments.digest == "hmac" and arguments.password is None:
        raise ShellError("--digest hmac needs the ledger's --password")
    password = (arguments.password or "").encode()
    return make_digest(DigestType[arguments.digest.upper()], password)


def _readjournal(arguments: Namespace) -> Iterable[object]:
    wanted = parse_file_id(arguments.file, ".txn", _DECIMAL)
    return read_journal(_folders(arguments), wanted, _digest(arguments))


def _readlog(arguments: Namespace) -> Iterable[object]:
    wanted = parse_file_id(arguments.file, ".log", _DECIMAL)
    if arguments.entry is not None and arguments.ledger is None:
        raise ShellError("-e needs -l: entry ids count within a ledger")
    return read_log(
        _folders(arguments), wanted, arguments.ledger, arguments.entry, _digest(arguments)
    )


def _readlogmetadata(arguments: Namespace) -> Iterable[object]:
    wanted = parse_file_id(arguments.file, ".log", _HEXADECIMAL)
    return [read_log_metadata(_folders(arguments), wanted)]


def _readledger(arguments: Namespace) -> Iterable[object]:
    if _asks_the_cluster(arguments):
        return run_on_cluster(arguments)
    folders, digest = _folders(arguments), _digest(arguments)
    return read_ledger(folders, arguments.ledger, arguments.first, arguments.last, digest)


def _ledger(arguments: Namespace) -> Iterable[object]:
    return read_index(_folders(arguments), arguments.ledger)


def _lastmark(arguments: Namespace) -> Iterable[object]:
    return last_marks(_folders(arguments))


def _listfilesondisc(arguments: Namespace) -> Iterable[object]:
    every = not (arguments.txn or arguments.log or arguments.idx)
    return [
        list_files(
            _folders(arguments),
            journals=every or arguments.txn,
            entry_logs=every or arguments.log,
            indexes=every or arguments.idx,
        )
    ]


def _listledgers(arguments: Namespace) -> Iterable[object]:
    if _asks_the_cluster(arguments):
        return run_on_cluster(arguments)
    if arguments.meta or arguments.bookieid is not None:
        raise ShellError("-meta and -bookieid ask the cluster's metadata: add --zookeeper")
    return list_ledgers(_folders(arguments))


def _localconsistencycheck(arguments: Namespace) -> Iterable[object]:
    return [check_consistency(_folders(arguments), _digest(arguments))]


def _rebuildindex(arguments: Namespace) -> Iterable[object]:
    folders, digest = _folders(arguments), _digest(arguments)
    password = arguments.password
    key = make_master_key(password.encode()) if password is not None else None
    directories = (*folders.journals, *folders.ledgers, *folders.indexes)
    roots = [Path(directory.name) for directory in directories]
    with sole_use(roots, even_if_dirty=arguments.force):
        rebuilt = rebuild_index(folders, arguments.ledger, key, digest)
        if not arguments.dry_run:
            write_index(RealDisk(Path(rebuilt.directory)), rebuilt)
    return [rebuilt]


def _xray(arguments: Namespace) -> Iterable[object]:
    digest = _digest(arguments)
    return file_spans(Path(arguments.file), digest.size if digest else _CRC32C_SIZE)


VERBS: dict[str, Callable[[Namespace], Iterable[object]]] = {
    **dict.fromkeys(CLUSTER_VERBS, run_on_cluster),
    "readjournal": _readjournal,
    "readlog": _readlog,
    "readlogmetadata": _readlogmetadata,
    "readledger": _readledger,
    "ledger": _ledger,
    "lastmark": _lastmark,
    "listfilesondisc": _listfilesondisc,
    "listledgers": _listledgers,
    "localconsistencycheck": _localconsistencycheck,
    "rebuildindex": _rebuildindex,
    "xray": _xray,
}
_ONE_DOCUMENT = {
    "readlogmetadata",
    "listfilesondisc",
    "localconsistencycheck",
    "rebuildindex",
    *(CLUSTER_VERBS.keys() - MANY_ANSWERS),
}
