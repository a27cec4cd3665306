"""The options of `labkit client`, apart from the workshop: that takes a second to import."""

import argparse
from collections.abc import Callable
from pathlib import Path

from labkit.views.shell import ZOOKEEPER_PLACE


def add_client(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    run: Callable[[argparse.Namespace], int],
) -> argparse.ArgumentParser:
    """Add the verb `client`, with its uses `write` and `take`, which `run` runs."""
    parser = verbs.add_parser("client", help="run the client that you build on a cluster")
    parser.add_argument("--file", type=Path, default=Path("myclient.py"), help="yours")
    parser.add_argument("--id", default="client", help="its name in the trace")
    parser.add_argument("--zookeeper", required=True, help=ZOOKEEPER_PLACE)
    uses = parser.add_subparsers(dest="use", required=True)
    write = uses.add_parser("write", help="make each line of the input an entry of a new ledger")
    write.add_argument("--sizes", default="3,2,2", help="E,Qw,Qa (default: 3,2,2)")
    write.add_argument("--window", type=int, default=100, help="entries under way (default: 100)")
    take = uses.add_parser("take", help="recover a ledger and print its entries")
    take.add_argument("ledger", type=int, help="its id")
    parser.set_defaults(run=run)
    return parser
