"""The arguments of the verbs about a cluster.

Like `arguments` it imports little.  Names and options are those of `bookkeeper shell`, except
`messageid`, which only labkit has.
"""

from argparse import ArgumentParser, _SubParsersAction

LAYOUT_NAMES = ("hierarchical", "flat", "legacyhierarchical", "longhierarchical")


def add_cluster_verbs(verbs: "_SubParsersAction[ArgumentParser]") -> None:
    """Declare the verbs that need `--zookeeper`."""
    _add_making(verbs)
    _add_looking(verbs)
    _add_ledgers(verbs)
    _add_recovering(verbs)
    message = verbs.add_parser(
        "messageid", help="show where a message is stored, down to files and offsets"
    )
    message.add_argument("-m", dest="data_too", action="store_true", help="also name its bytes")
    message.add_argument("id", help="ledger:entry:partition:batchIndex")
    message.add_argument("bookies", nargs="+", metavar="BOOKIE=FOLDER", help="as --data of each")


def _add_making(verbs: "_SubParsersAction[ArgumentParser]") -> None:
    new = verbs.add_parser("initnewcluster", help="create the nodes of a new cluster")
    format_ = verbs.add_parser("metaformat", help="delete a cluster's whole metadata")
    for parser in (new, format_):
        parser.add_argument("--layout", choices=LAYOUT_NAMES, help="(hierarchical)")
    _add_force(format_)


def _add_looking(verbs: "_SubParsersAction[ArgumentParser]") -> None:
    verbs.add_parser("whatisinstanceid", help="the cluster's instance id")
    bookies = verbs.add_parser("listbookies", help="the cluster's bookies (default: those alive)")
    bookies.add_argument("-rw", "--readwrite", action="store_true", help="those that take writes")
    bookies.add_argument("-ro", "--readonly", action="store_true", help="those that are read-only")
    bookies.add_argument("-a", "-all", "--all", action="store_true", help="those with a cookie")
    verbs.add_parser("whoisauditor", help="the bookie that is the auditor")
    marks = verbs.add_parser("listunderreplicated", help="ledgers that are short of copies")
    marks.add_argument("-mr", "--missingreplica", metavar="BOOKIE", help="only of this bookie")
    marks.add_argument(
        "-emr", "--excludingmissingreplica", metavar="BOOKIE", help="without those of this bookie"
    )


def _add_ledgers(verbs: "_SubParsersAction[ArgumentParser]") -> None:
    metadata = verbs.add_parser("ledgermetadata", help="a ledger's metadata")
    _add_ledger_id(metadata)
    delete = verbs.add_parser("deleteledger", help="delete a ledger, and with it its entries")
    _add_ledger_id(delete)
    _add_force(delete)
    test = verbs.add_parser("simpletest", help="create a ledger, write entries and read them back")
    for letter, name, default in (
        ("e", "ensemble", 3),
        ("w", "writeQuorum", 2),
        ("a", "ackQuorum", 2),
        ("n", "numEntries", 1000),
    ):
        test.add_argument(
            f"-{letter}", f"-{name}", f"--{name}", type=int, default=default, help=f"({default})"
        )


def _add_recovering(verbs: "_SubParsersAction[ArgumentParser]") -> None:
    switch = verbs.add_parser(
        "autorecovery", help="enable or disable the repair of ledgers (default: show)"
    )
    choice = switch.add_mutually_exclusive_group()
    choice.add_argument("-e", "-enable", "--enable", action="store_true")
    choice.add_argument("-d", "-disable", "--disable", action="store_true")
    choice.add_argument("-status", "--status", action="store_true", help="(default)")
    verbs.add_parser("triggeraudit", help="let the auditor look for lost bookies now")
    recover = verbs.add_parser("recover", help="copy the entries of lost bookies to others")
    recover.add_argument("bookies", help="their ids, separated by commas")
    recover.add_argument("-l", "-ledger", "--ledger", type=int, help="only this ledger")
    recover.add_argument("-sk", "--skipOpenLedgers", action="store_true", help="leave open ones")
    recover.add_argument("-dr", "-dryrun", "--dryrun", action="store_true", help="only tell which")
    recover.add_argument(
        "-d", "-deleteCookie", "--deleteCookie", action="store_true", help="they do not come back"
    )
    _add_force(recover)
    decommission = verbs.add_parser(
        "decommissionbookie",
        aliases=["decommission"],
        help="wait until no ledger needs a stopped bookie, then remove it",
    )
    decommission.add_argument("-bookieid", "--bookieid", required=True, help="its id")
    _add_force(decommission)


def _add_ledger_id(parser: ArgumentParser) -> None:
    parser.add_argument("-l", "-ledgerid", "--ledgerid", type=int, required=True, help="decimal")


def _add_force(parser: ArgumentParser) -> None:
    parser.add_argument("-f", "-force", "--force", action="store_true", help="do not ask first")
