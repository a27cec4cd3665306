"""The arguments of `labkit shell`.  Imports little: every start of labkit reads it."""

import os
from argparse import SUPPRESS, ArgumentParser, _SubParsersAction
from pathlib import Path
from typing import Any

from labkit.views.shell.cluster.arguments import add_cluster_verbs

PLACE = "host:port of ZooKeeper, or zk+null://host:port/ledgers"
PASSWORD_VARIABLE = "LABKIT_LEDGER_PASSWORD"
DIGESTS = ("crc32c", "crc32", "hmac", "dummy")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare directories, options and verbs; directories and options may also follow the verb."""
    _add_options(parser)
    parser.set_defaults(password=os.environ.get(PASSWORD_VARIABLE))
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="shell_verb", required=True)
    _add_file_verbs(verbs)
    add_cluster_verbs(verbs)
    for verb in dict.fromkeys(verbs.choices.values()):
        # Without a default: it would replace what stands before the verb.
        _add_options(verb, default=SUPPRESS)


def _add_options(parser: ArgumentParser, **default: Any) -> None:
    where = parser.add_argument_group("where the bookie's files are")
    where.add_argument("--data", type=Path, help="the folder of `labkit bookie`", **default)
    for name, what in (
        ("journal", "journal directory; once for each, in the bookie's order"),
        ("ledgers", "ledger directory; once for each"),
        ("index", "index directory; once for each (default: the ledger directories)"),
    ):
        where.add_argument(
            f"--{name}", type=Path, action="append", metavar="DIR", help=what, **default
        )
    others = parser.add_argument_group("the cluster, and how its answers are checked and printed")
    others.add_argument(
        "--zookeeper", metavar="PLACE", help=f"the cluster's metadata: {PLACE}", **default
    )
    others.add_argument(
        "--json", action="store_true", help="JSON: a document, or one line a record", **default
    )
    others.add_argument("--digest", choices=DIGESTS, help="check the digests of entries", **default)
    others.add_argument(
        "--password",
        help=f"the ledgers' password (hmac, rebuildindex); every user of the machine sees it in the"
        f" list of processes, but not in the environment, as {PASSWORD_VARIABLE}",
        **default,
    )


def _add_file_verbs(verbs: "_SubParsersAction[ArgumentParser]") -> None:
    _add_reading(verbs.add_parser("readjournal", help="records of a journal"), ".txn", "decimal")
    log = verbs.add_parser("readlog", help="entries of an entry log")
    _add_reading(log, ".log", "decimal")
    log.add_argument("-l", "--ledger", type=int, help="only of this ledger")
    log.add_argument("-e", "--entry", type=int, help="only this entry")
    metadata = verbs.add_parser("readlogmetadata", help="the ledgers in an entry log")
    metadata.add_argument("file", help="hexadecimal id, or name.log")
    entries = verbs.add_parser(
        "readledger", help="a ledger's entries, from a bookie's files or those of --zookeeper"
    )
    entries.add_argument("-m", dest="data_too", action="store_true", help="print the entries")
    entries.add_argument("ledger", type=int)
    entries.add_argument("first", type=int, nargs="?", default=0)
    entries.add_argument("last", type=int, nargs="?")
    ledger = verbs.add_parser("ledger", help="a ledger's index")
    ledger.add_argument("-m", dest="data_too", action="store_true", help="print its header too")
    ledger.add_argument("ledger", type=int)
    verbs.add_parser("lastmark", help="LastLogMark of each journal directory")
    files = verbs.add_parser("listfilesondisc", help="journals, entry logs and indexes")
    for kind in ("txn", "log", "idx"):
        files.add_argument(f"-{kind}", action="store_true", help=f"*.{kind} (default: all kinds)")
    ledgers = verbs.add_parser(
        "listledgers", help="the ledgers that this bookie stores, or those of --zookeeper"
    )
    ledgers.add_argument("-m", "-meta", "--meta", action="store_true", help="print metadata")
    ledgers.add_argument("-bookieid", "--bookieid", help="only those on this bookie")
    verbs.add_parser("localconsistencycheck", help="check that every index points to its entries")
    rebuild = verbs.add_parser("rebuildindex", help="rebuild a ledger's index; fences if unsure")
    rebuild.add_argument("ledger", type=int)
    rebuild.add_argument("-dryRun", "--dry-run", action="store_true", help="write nothing")
    rebuild.add_argument("--force", action="store_true", help="even if there is a DIRTY file")
    xray = verbs.add_parser("xray", help="every byte of a file, named")
    xray.add_argument("file", help="path of *.txn, *.log, *.idx, lastMark, lastId or VERSION")


def _add_reading(parser: ArgumentParser, suffix: str, base: str) -> None:
    parser.add_argument("-m", dest="data_too", action="store_true", help="print the entries")
    parser.add_argument("file", help=f"{base} id, or name{suffix}")
