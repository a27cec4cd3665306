"""`labkit shell`: builds the parser from the table of verbs, runs a verb, and prints its results.

The exit code is 0, or 1 if something is missing, damaged or inconsistent; in that case, a message
on standard error describes what is wrong and where.
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
from labkit.system.metadata.location import MetadataLocation, parse_location
from labkit.system.model.errors import LabkitError
from labkit.system.trace.recorder import Recorder
from labkit.views.shell import ZOOKEEPER_ADDRESS
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
    """Declare the verbs and the common options, which are accepted before and after the verb."""
    _add_common_options(parser)
    parser.set_defaults(password=os.environ.get(_PASSWORD_VARIABLE))
    parsers = parser.add_subparsers(title="verbs", metavar="VERB", dest="shell_verb", required=True)
    for verb in VERBS:
        verb_parser = parsers.add_parser(
            verb.name,
            aliases=verb.aliases,
            help=verb.help,
            description=f"{verb.help[0].upper()}{verb.help[1:]}.",
        )
        verb_parser.set_defaults(row=verb)
        for option in verb.options:
            if isinstance(option, tuple):
                group = verb_parser.add_mutually_exclusive_group()
                for each in option:
                    group.add_argument(*each.flags, **each.settings)
            else:
                verb_parser.add_argument(*option.flags, **option.settings)
        if verb.confirm:
            verb_parser.add_argument(
                "-f", "-force", "--force", action="store_true", help="do not ask for confirmation"
            )
        # Suppress the defaults, because they would override options given before the verb.
        _add_common_options(verb_parser, default=SUPPRESS)


def _add_common_options(parser: ArgumentParser, **default: Any) -> None:
    files = parser.add_argument_group("the bookie's files")
    files.add_argument(
        "--data", type=Path, metavar="FOLDER", help="data folder of `labkit bookie`", **default
    )
    for name, help_text in (
        ("journal", "journal directory; repeat for each, in the bookie's order"),
        ("ledgers", "ledger directory; repeat for each"),
        ("index", "index directory; repeat for each (default: the ledger directories)"),
    ):
        files.add_argument(
            f"--{name}", type=Path, action="append", metavar="DIR", help=help_text, **default
        )
    cluster = parser.add_argument_group("the cluster")
    cluster.add_argument("--zookeeper", metavar="ADDRESS", help=ZOOKEEPER_ADDRESS, **default)
    output = parser.add_argument_group("output and checks")
    output.add_argument("--json", action="store_true", help="print JSON", **default)
    output.add_argument(
        "--digest", choices=_DIGESTS, help="check entries with this type of digest", **default
    )
    output.add_argument(
        "--password",
        help="password of the ledgers, for --digest hmac and rebuildindex; other users of this"
        " machine can see it in the process list, so you may prefer to set the environment variable"
        f" {_PASSWORD_VARIABLE}",
        **default,
    )


def run_shell(arguments: Namespace, print_line: Callable[[str], None]) -> int:
    """Run one verb, print each line as soon as it is available, and return the exit code."""
    verb: Verb = arguments.row
    has_problems = False
    try:
        for value, is_document in _results(verb, arguments):
            _print(verb, value, is_document, arguments, print_line)
            for problem in value.problems() if isinstance(value, Result) else ():
                has_problems = True
                print_error(f"labkit: {problem}")
    except (LabkitError, OSError) as error:
        print_error(f"labkit: {with_advice(error)}")
        return 1
    return 1 if has_problems else 0


def _print(
    verb: Verb,
    value: Any,
    is_document: bool,
    arguments: Namespace,
    print_line: Callable[[str], None],
) -> None:
    with_data = getattr(arguments, "data_too", False)
    if arguments.json:
        plain = _as_plain(value, with_data=with_data)
        print_line(json.dumps(plain, indent=2 if is_document else None))
        return
    for line in verb.text(value, with_data) if verb.text else value.lines(with_data):
        print_line(printable(line, kept="\t"))  # Keep names with line feeds on one line.


def _as_plain(value: Any, *, with_data: bool) -> Any:
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
    """Yield each of the verb's results, and whether it is printed as a separate JSON document."""
    if verb.on_files is None and arguments.zookeeper is None:
        raise ShellError(
            f"{verb.name} needs a cluster: add --zookeeper HOST:PORT, or --zookeeper"
            " zk+null://HOST:PORT/ledgers"
        )
    if verb.refuse and (reason := verb.refuse(arguments)):
        raise ShellError(reason)
    if verb.on_files is None or (verb.on_cluster and _names_only_cluster(verb, arguments)):
        yield from _cluster_results(verb, arguments)
    else:
        yield from _split_results(verb.on_files(arguments))


def _names_only_cluster(verb: Verb, arguments: Namespace) -> bool:
    if arguments.zookeeper is None:
        return False
    if arguments.data or arguments.journal or arguments.ledgers or arguments.index:
        raise ShellError(
            f"{verb.name} reads either a bookie's files or a cluster: give either --zookeeper, or"
            " --data (or --journal, --ledgers and --index)"
        )
    return True


def _split_results(found: object) -> Iterator[tuple[object, bool]]:
    if isinstance(found, Iterable):
        yield from ((value, False) for value in found)
    else:
        yield found, True


def _cluster_results(verb: Verb, arguments: Namespace) -> Iterator[tuple[object, bool]]:
    assert verb.on_cluster is not None, "each verb has `on_files` or `on_cluster`"
    with asyncio.Runner() as runner:
        client, store = runner.run(_connect(parse_location(arguments.zookeeper)))
        try:
            if verb.confirm and not arguments.force and (question := verb.confirm(arguments)):
                _confirm(question)
            found = verb.on_cluster(arguments, client)
            if isinstance(found, AsyncIterator):
                while (value := runner.run(_next(found))) is not _END:
                    yield value, False
            else:
                yield from _split_results(runner.run(found))
        finally:
            client.close()
            runner.run(store.stop())


async def _next(values: AsyncIterator[object]) -> object:
    return await anext(values, _END)


async def _connect(location: MetadataLocation) -> tuple[BookKeeper, ZooKeeperStore]:
    store = ZooKeeperStore(location)
    await store.start()
    return new_client(store, Recorder("shell", trace_clock_us)), store


def _confirm(question: str) -> None:
    """Ask the user for confirmation, and raise `ShellError` unless the answer is yes."""
    sys.stderr.write(f"{question} (y/N) ")
    sys.stderr.flush()
    # Standard input is None if it was closed (`<&-`).
    answer = "" if sys.stdin is None else sys.stdin.readline()
    if answer.strip().lower() not in ("y", "yes"):
        raise ShellError("cancelled; to proceed, answer y or add --force")
