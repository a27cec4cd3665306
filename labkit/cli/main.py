"""The command `labkit`.  Each verb imports what it needs when it runs: a bookie starts fast, and
`labkit doctor` works where half of the packages are missing.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias, cast

from labkit import __version__
from labkit.cli.intermixed import IntermixedParser
from labkit.course.grading.arguments import add_grade, add_handout
from labkit.system.model.errors import LabkitError
from labkit.system.model.missing_part import MissingPart
from labkit.views.shell import ZOOKEEPER_PLACE
from labkit.worlds.live.host.exit_codes import (
    EXIT_DISK_FAILED,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
)
from labkit.worlds.live.host.os_error_advice import with_advice
from labkit.worlds.live.host.posix import require_posix
from labkit.worlds.live.host.printable import printable
from labkit.worlds.live.host.safe_output import print_error, print_line

NOTEBOOKS = "notebooks"
TOUR = f"{NOTEBOOKS}/00-tour.ipynb"
FIRST_LESSON = f"{NOTEBOOKS}/01-entry.ipynb"
_RUN_ANYWHERE = ("lab", "search", "workshop", "handout", "doctor")
_NODES = ("bookie", "autorecovery", "broker", "client")
"""Verbs with an option `--id`, which an error names."""

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Arguments = Any
"""An `argparse.Namespace`: its attributes are the options of the verb."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code."""
    _make_writable()
    parser = IntermixedParser(
        prog="labkit", description="Apache BookKeeper's storage, small and real."
    )
    parser.add_argument("--version", action="version", version=f"labkit {__version__}")
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", dest="verb", required=True)
    for add_verb in (
        _add_lab,
        _add_local,
        _add_bookie,
        _add_autorecovery,
        _add_broker,
        _add_shell,
        _add_search,
        _add_workshop,
        _add_client,
        _add_grade,
        _add_handout,
        _add_doctor,
    ):
        add_verb(verbs)
    parsed = parser.parse_args(arguments)
    run: Callable[[Arguments], int] = parsed.run
    try:
        if parsed.verb not in _RUN_ANYWHERE:
            require_posix(f"`labkit {parsed.verb}`")
        return run(parsed)
    except MissingPart as missing:
        return _fail(str(missing))
    except (LabkitError, OSError) as error:
        node = f"{parsed.id or parsed.verb}: " if parsed.verb in _NODES else ""
        return _fail(f"{node}{with_advice(error)}")
    except _OutputError as failed:
        return _without_output(failed.reason)
    except asyncio.CancelledError:
        # A stop signal ends a server in this way (`labkit.worlds.live.host.stop_signal`).
        return EXIT_INTERRUPTED if parsed.verb == "client" else EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _make_writable() -> None:
    """See to it that any text can be written to standard output and standard error."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # The caller has closed it (`>&-`).
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):  # An encoding such as cp1252 lacks some signs.
            stream.reconfigure(errors="backslashreplace")


class _OutputError(Exception):
    """Standard output takes no more; verbs do not take it for an error of a file."""

    def __init__(self, reason: OSError) -> None:
        self.reason = reason


def _say(line: str) -> None:
    try:
        # Names, messages and errors of strangers are among the lines.
        print(printable(line, kept="\n\t"), flush=True)
    except OSError as error:
        raise _OutputError(error) from None


def _without_output(reason: OSError) -> int:
    # Nothing more may be written, not even at the exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(reason, BrokenPipeError):  # The reader has seen enough (`| head`).
        return EXIT_OK
    return _fail(f"the output cannot be written: {reason}")


def _add_lab(verbs: Verbs) -> None:
    parser = verbs.add_parser("lab", help="open JupyterLab on the tour")
    parser.add_argument("notebook", nargs="?", help=f"default: {TOUR}, copied here if missing")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=_lab)


def _lab(arguments: Arguments) -> int:
    from labkit.cli.doctor import format_results, java, notebook_part, python, require, system
    from labkit.cli.doctor import zookeeper as zookeeper_part
    from labkit.cli.lab import open_lab
    from labkit.shipped_files import copy_notebooks

    require(python, lambda: notebook_part("jupyterlab"))
    notebook = arguments.notebook or TOUR
    if sys.platform == "win32":
        _say(format_results([system()]))
        notebook = arguments.notebook or FIRST_LESSON
    else:
        require(java, zookeeper_part)
    if not arguments.notebook:
        try:
            if count := copy_notebooks(Path(NOTEBOOKS)):
                _say(f"{count} notebooks are new in {Path(NOTEBOOKS).absolute()}")
        except OSError as problem:
            return _fail(f"the notebooks cannot be copied into this folder: {problem}")
    if not Path(notebook).is_file():
        return _fail(f"there is no {notebook} here; without a name, `labkit lab` opens the tour")
    return open_lab(notebook, arguments.no_browser)


def _add_local(verbs: Verbs) -> None:
    parser = verbs.add_parser("local", help="run a cluster on this machine until Ctrl-C")
    parser.add_argument("--bookies", type=int, default=3, help="how many (default 3)")
    parser.add_argument("--brokers", type=int, default=0, help="how many (default none)")
    parser.add_argument("--data", type=Path, help="keep the data there (default: temporary)")
    parser.add_argument("--zookeeper", default="", help=f"an existing one: {ZOOKEEPER_PLACE}")
    parser.set_defaults(run=_local)


def _local(arguments: Arguments) -> int:
    from labkit.worlds.live.processes.local_process import run_local

    asyncio.run(run_local(arguments, print_line, _warn))
    return EXIT_OK


def _add_bookie(verbs: Verbs) -> None:
    parser = verbs.add_parser("bookie", help="run one bookie until SIGTERM")
    parser.add_argument("--id", help="its id in the cluster, e.g. bookie-1")
    parser.add_argument("--data", type=Path, help="folder of journal and ledgers")
    parser.add_argument("--zookeeper", help=ZOOKEEPER_PLACE)
    parser.add_argument("--conf", type=Path, help="BookKeeper's bk_server.conf; options go first")
    parser.add_argument("--port", type=int, help="port to serve (default: a free one)")
    parser.add_argument("--flush-interval-ms", type=int, help="longest time between checkpoints")
    parser.add_argument("--store", type=Path, metavar="MYBOOKIE.PY", help="with the parts of yours")
    _add_trace_from_start(parser)
    parser.set_defaults(run=_bookie)


def _add_trace_from_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace-from-start", action="store_true", help="keep the start's events for a listener"
    )


def _bookie(arguments: Arguments) -> int:
    from labkit.system.storage.store import LedgerStore
    from labkit.worlds.live.processes.bookie_process import run_bookie
    from labkit.worlds.live.processes.server_config import bookie_settings, read_server_config

    open_store = LedgerStore
    try:
        if arguments.store:
            from labkit.course.workshop.bookie.process import store_from

            open_store = store_from(arguments.store)
        config = read_server_config(arguments.conf) if arguments.conf else None
        if config is not None:
            _warn_of_unused(arguments.conf, config.unused_keys)
        settings = bookie_settings(arguments, config)
        asyncio.run(run_bookie(settings, print_line, _warn, open_store))
    except OSError as error:
        _fail(f"{arguments.id or 'bookie'} stops, its disk or network failed: {with_advice(error)}")
        return EXIT_DISK_FAILED
    return EXIT_OK


def _add_autorecovery(verbs: Verbs) -> None:
    parser = verbs.add_parser("autorecovery", help="repair ledgers until SIGTERM")
    parser.add_argument("--id", help="its name in the election (default: this host's)")
    parser.add_argument("--zookeeper", help=ZOOKEEPER_PLACE)
    parser.add_argument("--conf", type=Path, help="BookKeeper's bk_server.conf; options go first")
    _add_trace_from_start(parser)
    parser.set_defaults(run=_autorecovery)


def _autorecovery(arguments: Arguments) -> int:
    from labkit.worlds.live.processes.autorecovery_process import run_autorecovery
    from labkit.worlds.live.processes.server_config import autorecovery_settings, read_server_config

    config = read_server_config(arguments.conf, bookie=False) if arguments.conf else None
    if config is not None:
        _warn_of_unused(arguments.conf, config.unused_keys)
    asyncio.run(run_autorecovery(autorecovery_settings(arguments, config), print_line))
    return EXIT_OK


def _add_broker(verbs: Verbs) -> None:
    parser = verbs.add_parser("broker", help="serve Pulsar's clients until SIGTERM")
    parser.add_argument("--id", help="its name in the trace, e.g. broker-1")
    parser.add_argument("--zookeeper", help=ZOOKEEPER_PLACE)
    parser.add_argument("--conf", type=Path, help="Pulsar's broker.conf; options go first")
    parser.add_argument("--port", type=int, help="port to serve (default: a free one)")
    parser.add_argument("--web-port", type=int, help="port for HTTP (default: a free one)")
    _add_trace_from_start(parser)
    parser.set_defaults(run=_broker)


def _broker(arguments: Arguments) -> int:
    from labkit.worlds.live.processes.broker_config import broker_settings
    from labkit.worlds.live.processes.broker_process import run_broker

    settings, unused = broker_settings(arguments)
    _warn_of_unused(arguments.conf, unused)
    asyncio.run(run_broker(settings, print_line))
    return EXIT_OK


def _add_shell(verbs: Verbs) -> None:
    parser = verbs.add_parser("shell", help="read a bookie's files, query and repair a cluster")
    parser.set_defaults(run=_shell)
    cast("IntermixedParser", parser).fill_when_used(_add_shell_arguments)


def _add_shell_arguments(parser: argparse.ArgumentParser) -> None:
    from labkit.views.shell.command import add_arguments

    add_arguments(parser)


def _shell(arguments: Arguments) -> int:
    from labkit.views.shell.command import run_shell

    return run_shell(arguments, _say)


def _add_search(verbs: Verbs) -> None:
    parser = verbs.add_parser("search", help="look for broken promises in simulated runs")
    parser.add_argument("--variant", default="", help="the mistake to plant (default: none)")
    parser.add_argument("--seeds", type=int, default=1000, help="how many (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument(
        "--jobs", type=int, default=0, help="processes (default: one per processor)"
    )
    parser.set_defaults(run=_search)


def _search(arguments: Arguments) -> int:
    from labkit.cli.search import run_search

    return EXIT_OK if run_search(arguments, _say) else EXIT_FAILED


def _add_workshop(verbs: Verbs) -> None:
    parser = verbs.add_parser("workshop", help="check the bookie or client that you build")
    parser.add_argument("track", choices=("bookie", "client"), help="what you build")
    parser.add_argument("step", type=int, nargs="?", help="default: all, up to the first open one")
    parser.add_argument("--file", type=Path, help="yours (default: mybookie.py or myclient.py)")
    parser.set_defaults(run=_workshop)


def _workshop(arguments: Arguments) -> int:
    from labkit.course.workshop.command import run_workshop
    from labkit.course.workshop.step import NoSuchStepError

    try:
        return EXIT_OK if run_workshop(arguments, _say) else EXIT_FAILED
    except NoSuchStepError as error:
        return _fail(str(error))


def _add_client(verbs: Verbs) -> None:
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
    _add_trace_from_start(parser)
    parser.set_defaults(run=_client)


def _client(arguments: Arguments) -> int:
    from labkit.course.workshop.client.process import ProgramError, run_command

    try:
        asyncio.run(run_command(arguments, _say))
    except ProgramError as error:
        return _fail(f"{arguments.id}: {error}")
    except SystemExit:  # asyncio passes it on.
        return _fail(f"{arguments.id}: a task of {arguments.file} ended Python with `sys.exit`")
    return EXIT_OK


def _add_grade(verbs: Verbs) -> None:
    add_grade(verbs).set_defaults(run=_grade)


def _grade(arguments: Arguments) -> int:
    from labkit.course.grading.command import run_grade
    from labkit.course.grading.submissions import SubmissionsError

    try:
        run_grade(arguments, _say)
    except SubmissionsError as error:
        return _fail(str(error))
    return EXIT_OK


def _add_handout(verbs: Verbs) -> None:
    add_handout(verbs).set_defaults(run=_handout)


def _handout(arguments: Arguments) -> int:
    from labkit.course.grading.command import run_handout
    from labkit.course.grading.handout import HandoutError

    try:
        run_handout(arguments, _say)
    except HandoutError as error:
        return _fail(str(error))
    return EXIT_OK


def _add_doctor(verbs: Verbs) -> None:
    parser = verbs.add_parser("doctor", help="say what is missing or unfit, and the remedy")
    parser.set_defaults(run=_doctor)


def _doctor(_: Arguments) -> int:
    from labkit.cli.doctor import exit_code, format_results, run_doctor

    results = run_doctor()
    _say(format_results(results))
    return exit_code(results)


def _fail(line: str) -> int:
    _warn(line)
    return EXIT_FAILED


def _warn_of_unused(conf: Path | None, unused: Mapping[str, str]) -> None:
    from labkit.worlds.live.config.known_keys import describe_unused

    if unused:
        _warn(f"{conf}: {describe_unused(unused)}; docs/configuration.md lists those it uses")


def _warn(line: str) -> None:
    print_error(f"labkit: {line}")
