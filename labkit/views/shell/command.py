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
from labkit.views.shell.folders import ShellError
from labkit.views.shell.options import ZOOKEEPER_ADDRESS, flag, option
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
        for item in verb.options:
            if isinstance(item, tuple):
                group = verb_parser.add_mutually_exclusive_group()
                for each in item:
                    each.add_to(group)
            else:
                item.add_to(verb_parser)
        if verb.confirm:
            flag("-f -force --force", "do not ask for confirmation").add_to(verb_parser)
        # Suppress the defaults, because they would override options given before the verb.
        _add_common_options(verb_parser, default=SUPPRESS)


_GROUPS = {
    "the bookie's files": (
        option("--data FOLDER", "data folder of `labkit bookie`", type=Path),
        *(
            option(f"--{name} DIR", help_text, type=Path, action="append")
            for name, help_text in (
                ("journal", "journal directory; repeat for each, in the bookie's order"),
                ("ledgers", "ledger directory; repeat for each"),
                ("index", "index directory; repeat for each (default: the ledger directories)"),
            )
        ),
    ),
    "the cluster": (option("--zookeeper ADDRESS", ZOOKEEPER_ADDRESS),),
    "output and checks": (
        flag("--json", "print JSON"),
        option("--digest", "check entries with this type of digest", choices=_DIGESTS),
        option(
            "--password PASSWORD",
            "password of the ledgers, for --digest hmac and rebuildindex; other users of this"
            " machine can see it in the process list, so you may prefer to set the environment"
            f" variable {_PASSWORD_VARIABLE}",
        ),
    ),
}
"""The options of every verb, in groups with these titles."""


def _add_common_options(parser: ArgumentParser, **default: Any) -> None:
    for title, options in _GROUPS.items():
        group = parser.add_argument_group(title)
        for each in options:
            each.add_to(group, **default)


def run_shell(arguments: Namespace, print_line: Callable[[str], None]) -> int:
    """Run one verb, print each line as soon as it is available, and return the exit code."""
    verb: Verb = arguments.row
    with_data = getattr(arguments, "data_too", False)
    has_problems = False
    try:
        for value, is_document in _results(verb, arguments):
            if arguments.json:
                plain = _as_plain(value, with_data=with_data)
                print_line(json.dumps(plain, indent=2 if is_document else None))
            else:
                for line in verb.text(value, with_data) if verb.text else value.lines(with_data):
                    print_line(printable(line, kept="\t"))  # Keep names with line feeds on a line.
            for problem in value.problems() if isinstance(value, Result) else ():
                has_problems = True
                print_error(f"labkit: {problem}")
    except (LabkitError, OSError) as error:
        print_error(f"labkit: {with_advice(error)}")
        return 1
    return 1 if has_problems else 0


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


def _results(verb: Verb, arguments: Namespace) -> Iterator[tuple[Any, bool]]:
    """Yield each of the verb's results, and whether it is printed as a separate JSON document."""
    has_cluster = arguments.zookeeper is not None
    if verb.on_files is None and not has_cluster:
        raise ShellError(
            f"{verb.name} needs a cluster: add --zookeeper HOST:PORT, or --zookeeper"
            " zk+null://HOST:PORT/ledgers"
        )
    has_files = arguments.data or arguments.journal or arguments.ledgers or arguments.index
    if verb.on_files and verb.on_cluster and has_cluster and has_files:
        raise ShellError(
            f"{verb.name} reads either a bookie's files or a cluster: give either --zookeeper, or"
            " --data (or --journal, --ledgers and --index)"
        )
    if verb.check:
        verb.check(arguments)
    if verb.on_cluster and has_cluster:
        yield from _cluster_results(verb, verb.on_cluster, arguments)
    elif verb.on_files:
        yield from _split_results(verb.on_files(arguments))


def _split_results(found: object) -> Iterator[tuple[object, bool]]:
    if isinstance(found, Iterable):
        yield from ((value, False) for value in found)
    else:
        yield found, True


def _cluster_results(
    verb: Verb, query: Callable[[Namespace, BookKeeper], Any], arguments: Namespace
) -> Iterator[tuple[object, bool]]:
    with asyncio.Runner() as runner:
        client, store = runner.run(_connect(parse_location(arguments.zookeeper)))
        try:
            if verb.confirm and not arguments.force and (question := verb.confirm(arguments)):
                _confirm(question)
            found = query(arguments, client)
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
