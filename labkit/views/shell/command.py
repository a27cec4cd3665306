"""`labkit shell`: builds the parser from the table of verbs, calls a verb, prints its results.

The exit code is 0, or 1 when something is missing, damaged or inconsistent, with one line that says
what and where.
"""

import asyncio
import json
import os
import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.place import MetadataPlace, parse_place
from labkit.system.model.errors import LabkitError
from labkit.system.trace.recorder import Recorder
from labkit.views.shell import ZOOKEEPER_PLACE
from labkit.views.shell.folders import ShellError
from labkit.views.shell.records import Result
from labkit.views.shell.verbs import VERBS, Verb
from labkit.worlds.live.clock import trace_clock_us
from labkit.worlds.live.host.os_error_advice import with_advice
from labkit.worlds.live.host.printable import printable
from labkit.worlds.live.host.safe_output import print_error
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.store import ZooKeeperStore

_PASSWORD_VARIABLE = "LABKIT_LEDGER_PASSWORD"
_DIGESTS = ("crc32c", "crc32", "hmac", "dummy")
_END = object()


def add_arguments(parser: ArgumentParser) -> None:
    """Declare directories, options and verbs; directories and options may also follow the verb."""
    _add_common_options(parser)
    parser.set_defaults(password=os.environ.get(_PASSWORD_VARIABLE))
    parsers = parser.add_subparsers(title="verbs", metavar="VERB", dest="shell_verb", required=True)
    for verb in VERBS:
        of_verb = parsers.add_parser(verb.name, aliases=verb.aliases, help=verb.help)
        of_verb.set_defaults(row=verb)
        for option in verb.options:
            if isinstance(option, tuple):
                group = of_verb.add_mutually_exclusive_group()
                for each in option:
                    group.add_argument(*each.flags, **each.settings)
            else:
                of_verb.add_argument(*option.flags, **option.settings)
        if verb.confirm:
            of_verb.add_argument(
                "-f", "-force", "--force", action="store_true", help="do not ask first"
            )
        # Without a default: it would replace what stands before the verb.
        _add_common_options(of_verb, default=SUPPRESS)


def _add_common_options(parser: ArgumentParser, **default: Any) -> None:
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
        "--zookeeper", metavar="PLACE", help=f"the cluster's metadata: {ZOOKEEPER_PLACE}", **default
    )
    others.add_argument(
        "--json", action="store_true", help="JSON: a document, or one line a record", **default
    )
    others.add_argument(
        "--digest", choices=_DIGESTS, help="check the digests of entries", **default
    )
    others.add_argument(
        "--password",
        help=f"the ledgers' password (hmac, rebuildindex); every user of the machine sees it in the"
        f" list of processes, but not in the environment, as {_PASSWORD_VARIABLE}",
        **default,
    )


def run_shell(arguments: Namespace, say: Callable[[str], None]) -> int:
    """Run one verb, whose lines `say` prints at once; returns the exit code."""
    verb: Verb = arguments.row
    has_problems = False
    try:
        for value, is_document in _results(verb, arguments):
            _print(verb, value, is_document, arguments, say)
            for problem in value.problems() if isinstance(value, Result) else ():
                has_problems = True
                print_error(f"labkit: {problem}")
    except (LabkitError, OSError) as error:
        print_error(f"labkit: {with_advice(error)}")
        return 1
    return 1 if has_problems else 0


def _print(
    verb: Verb, value: Any, is_document: bool, arguments: Namespace, say: Callable[[str], None]
) -> None:
    with_data = getattr(arguments, "data_too", False)
    if arguments.json:
        plain = _as_plain(value, with_data=with_data)
        say(json.dumps(plain, indent=2 if is_document else None))
        return
    for line in verb.text(value, with_data) if verb.text else value.lines(with_data):
        say(printable(line, kept="\t"))  # A name with a line feed must not look like two lines.


def _as_plain(value: Any, *, with_data: bool) -> Any:
    """Return what `json.dumps` takes: bytes as hexadecimal, an object with its class as `kind`."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return [_as_plain(each, with_data=with_data) for each in value]
    if not hasattr(value, "__dataclass_fields__"):
        return value
    plain = {
        field.name: _as_plain(getattr(value, field.name), with_data=with_data)
        for field in fields(value)
        if with_data or field.name != "data"
    }
    return {"kind": type(value).__name__, **plain}


def _results(verb: Verb, arguments: Namespace) -> Iterator[tuple[object, bool]]:
    """Yield the verb's results, and whether each is a JSON document of its own."""
    if verb.on_files is None and arguments.zookeeper is None:
        raise ShellError(
            "name the cluster's metadata store: --zookeeper HOST:PORT, or"
            " zk+null://HOST:PORT/ledgers"
        )
    if verb.refuse and (reason := verb.refuse(arguments)):
        raise ShellError(reason)
    if verb.on_files is None or (verb.on_cluster and _names_only_cluster(verb, arguments)):
        yield from _cluster_results(verb, arguments)
    else:
        yield from _one_or_many(verb.on_files(arguments))


def _names_only_cluster(verb: Verb, arguments: Namespace) -> bool:
    if arguments.zookeeper is None:
        return False
    if arguments.data or arguments.journal or arguments.ledgers or arguments.index:
        raise ShellError(
            f"{verb.name} reads a bookie's files, or asks --zookeeper: name one of them"
        )
    return True


def _one_or_many(found: object) -> Iterator[tuple[object, bool]]:
    if isinstance(found, Iterable):
        yield from ((value, False) for value in found)
    else:
        yield found, True


def _cluster_results(verb: Verb, arguments: Namespace) -> Iterator[tuple[object, bool]]:
    assert verb.on_cluster is not None, "a verb reads files or asks a cluster"
    with asyncio.Runner() as runner:
        client, store = runner.run(_connect(parse_place(arguments.zookeeper)))
        try:
            if verb.confirm and not arguments.force and (question := verb.confirm(arguments)):
                _ask(question)
            found = verb.on_cluster(arguments, client)
            if isinstance(found, AsyncIterator):
                while (value := runner.run(_next(found))) is not _END:
                    yield value, False
            else:
                yield from _one_or_many(runner.run(found))
        finally:
            client.close()
            runner.run(store.stop())


async def _next(values: AsyncIterator[object]) -> object:
    return await anext(values, _END)


async def _connect(place: MetadataPlace) -> tuple[BookKeeper, ZooKeeperStore]:
    store = ZooKeeperStore(place)
    await store.start()
    return new_client(store, Recorder("shell", trace_clock_us)), store


def _ask(question: str) -> None:
    """Raises `ShellError` unless the answer is yes."""
    sys.stderr.write(f"{question} (y/N) ")
    sys.stderr.flush()
    answer = "" if sys.stdin is None else sys.stdin.readline()  # None: it is closed (`<&-`).
    if answer.strip().lower() not in ("y", "yes"):
        raise ShellError("nothing was done; answer y, or add --force")
