"""Defines the subcommands of `labkit`, and runs the one given on the command line.

Each subcommand imports its modules only when it runs, so that a bookie starts fast, and `labkit
doctor` works even if packages are missing.
"""

import argparse
import asyncio
import os
import sys
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeAlias, cast

from labkit import __version__
from labkit.cli.intermixed import IntermixedParser
from labkit.course.grading.arguments import add_grade, add_handout, add_inventory
from labkit.system.model.errors import LabkitError
from labkit.system.model.missing_part import MissingPart
from labkit.views.shell import ZOOKEEPER_ADDRESS
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
_PORTABLE_VERBS = ("lab", "search", "open", "workshop", "handout", "inventory", "doctor")
_VERBS_WITH_ID = ("bookie", "autorecovery", "broker", "client")
"""Subcommands whose error messages start with the value of the option `--id`."""

Verbs: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Arguments = Any
"""An `argparse.Namespace` whose attributes are the options of the subcommand."""


def main(arguments: Sequence[str] | None = None) -> int:
    _accept_any_text()
    parser = IntermixedParser(
        prog="labkit",
        description="labkit runs BookKeeper, the storage system under Apache Pulsar, on your"
        " machine or in a simulation, together with a course about it.",
        epilog="Start with `labkit lab`, which opens the course. `labkit VERB --help` describes a"
        " verb.",
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
        _add_open,
        _add_workshop,
        _add_client,
        _add_grade,
        _add_handout,
        _add_inventory,
        _add_doctor,
    ):
        add_verb(verbs)
    parsed = parser.parse_args(arguments)
    run: Callable[[Arguments], int] = parsed.run
    try:
        if parsed.verb not in _PORTABLE_VERBS:
            require_posix(f"`labkit {parsed.verb}`")
        return run(parsed)
    except MissingPart as missing:
        return _fail(str(missing))
    except (LabkitError, OSError) as error:
        node = f"{parsed.id or parsed.verb}: " if parsed.verb in _VERBS_WITH_ID else ""
        return _fail(f"{node}{with_advice(error)}")
    except _OutputError as failed:
        return _fail_on_output(failed.reason)
    except asyncio.CancelledError:
        # A stop signal makes a server raise this error (see `labkit.worlds.live.host.stop_signal`).
        return EXIT_INTERRUPTED if parsed.verb == "client" else EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _accept_any_text() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # The caller has closed the stream (`>&-`).
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, TextIOWrapper):  # Encodings such as cp1252 lack some characters.
            stream.reconfigure(errors="backslashreplace")


class _OutputError(Exception):
    """Raised if standard output cannot be written to.

    It is not an `OSError`, so that subcommands do not mistake it for an error in one of their own
    files.
    """

    def __init__(self, reason: OSError) -> None:
        self.reason = reason


def _print(line: str) -> None:
    try:
        # The line may contain names, messages and error texts from untrusted sources.
        print(printable(line, kept="\n\t"), flush=True)
    except OSError as error:
        raise _OutputError(error) from None


def _fail_on_output(reason: OSError) -> int:
    # Redirect standard output, because Python would fail again when it flushes the output at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(reason, BrokenPipeError):  # The reader closed the pipe, as in `| head`.
        return EXIT_OK
    return _fail(f"cannot write the output: {reason}")


def _add_lab(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "lab",
        help="open the course in JupyterLab",
        description="Open a notebook in JupyterLab. Without an argument, this copies the course's"
        f" notebooks to ./{NOTEBOOKS}, unless they exist, and opens the tour.",
    )
    parser.add_argument(
        "notebook", nargs="?", metavar="NOTEBOOK", help=f"notebook to open (default: {TOUR})"
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the URL instead of opening a browser"
    )
    parser.set_defaults(run=_lab)


def _lab(arguments: Arguments) -> int:
    from labkit.cli.doctor import format_results, java, notebook_part, python, require, system
    from labkit.cli.doctor import zookeeper as zookeeper_part
    from labkit.cli.lab import open_lab
    from labkit.shipped_files import copy_notebooks

    require(python, lambda: notebook_part("jupyterlab"))
    notebook = arguments.notebook or TOUR
    if sys.platform == "win32":
        _print(format_results([system()]))
        notebook = arguments.notebook or FIRST_LESSON
    else:
        require(java, zookeeper_part)
    if not arguments.notebook:
        try:
            if count := copy_notebooks(Path(NOTEBOOKS)):
                _print(f"copied {count} notebooks to {Path(NOTEBOOKS).absolute()}")
        except OSError as problem:
            return _fail(f"cannot copy the notebooks to this folder: {problem}")
    if not Path(notebook).is_file():
        return _fail(
            f"notebook {notebook} does not exist; `labkit lab` without a name opens the tour"
        )
    return open_lab(notebook, arguments.no_browser)


def _add_local(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "local",
        help="run a cluster on this machine until Ctrl-C",
        description="Run ZooKeeper, bookies with autorecovery, and brokers until Ctrl-C.",
    )
    parser.add_argument(
        "--bookies", type=int, default=3, metavar="N", help="number of bookies (default: 3)"
    )
    parser.add_argument(
        "--brokers", type=int, default=0, metavar="N", help="number of brokers (default: 0)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder for the cluster's data (default: a temporary folder, deleted at the end)",
    )
    parser.add_argument(
        "--zookeeper",
        default="",
        metavar="ADDRESS",
        help=f"use a running ZooKeeper instead of starting one: {ZOOKEEPER_ADDRESS}",
    )
    parser.set_defaults(run=_local)


def _local(arguments: Arguments) -> int:
    from labkit.worlds.live.processes.cluster import LocalCluster
    from labkit.worlds.live.processes.local_process import run_local

    cluster = LocalCluster(
        arguments.bookies,
        zookeeper=arguments.zookeeper,
        folder=arguments.data,
        traced=False,
        autorecovery={},
        brokers=arguments.brokers,
    )
    asyncio.run(run_local(cluster, print_line, _warn))
    return EXIT_OK


def _add_bookie(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "bookie",
        help="run a bookie until SIGTERM",
        description="Run a bookie until SIGTERM. Give --id, --data and --zookeeper, or a"
        " configuration file.",
    )
    parser.add_argument("--id", help="bookie id, for example b0")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder for the journal and the ledgers"
    )
    parser.add_argument("--zookeeper", metavar="ADDRESS", help=ZOOKEEPER_ADDRESS)
    _add_conf(parser, "bk_server.conf of BookKeeper")
    _add_port(parser, "--port", "port for clients")
    parser.add_argument(
        "--flush-interval-ms",
        type=int,
        metavar="MS",
        help="maximum time between two checkpoints (default: 10000)",
    )
    parser.add_argument(
        "--store",
        type=Path,
        metavar="MYBOOKIE.PY",
        help="file of the bookie that you build; its parts replace labkit's storage",
    )
    _add_trace_from_start(parser)
    parser.set_defaults(run=_bookie)


def _add_trace_from_start(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace-from-start",
        action="store_true",
        help="buffer the events from startup until a trace listener connects",
    )


def _add_conf(parser: argparse.ArgumentParser, file: str) -> None:
    parser.add_argument(
        "--conf",
        type=Path,
        metavar="FILE",
        help=f"configuration file, such as {file}; command line options override it",
    )


def _add_port(parser: argparse.ArgumentParser, option: str, purpose: str) -> None:
    parser.add_argument(option, type=int, metavar="PORT", help=f"{purpose} (default: any free one)")


def _bookie(arguments: Arguments) -> int:
    from labkit.system.storage.store import LedgerStore
    from labkit.worlds.live.processes.bookie_process import run_bookie
    from labkit.worlds.live.processes.server_config import bookie_settings, read_server_config

    open_store = LedgerStore
    try:
        if arguments.store:
            from labkit.course.workshop.bookie.process import store_from

            open_store = store_from(arguments.store)
        config = read_server_config(arguments.conf)
        _warn_of_unused(arguments.conf, config.unused_keys)
        settings = bookie_settings(arguments, config)
        asyncio.run(run_bookie(settings, print_line, _warn, open_store))
    except OSError as error:
        _fail(
            f"{arguments.id or 'bookie'} stopped because its disk or network failed:"
            f" {with_advice(error)}"
        )
        return EXIT_DISK_FAILED
    return EXIT_OK


def _add_autorecovery(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "autorecovery",
        help="run autorecovery until SIGTERM",
        description="Run an autorecovery process until SIGTERM: it takes part in the election of"
        " the auditor, and re-replicates under-replicated ledgers.",
    )
    parser.add_argument("--id", help="name in the auditor election (default: the host name)")
    parser.add_argument("--zookeeper", metavar="ADDRESS", help=ZOOKEEPER_ADDRESS)
    _add_conf(parser, "bk_server.conf of BookKeeper")
    _add_trace_from_start(parser)
    parser.set_defaults(run=_autorecovery)


def _autorecovery(arguments: Arguments) -> int:
    from labkit.worlds.live.processes.autorecovery_process import run_autorecovery
    from labkit.worlds.live.processes.server_config import autorecovery_settings, read_server_config

    config = read_server_config(arguments.conf, bookie=False)
    _warn_of_unused(arguments.conf, config.unused_keys)
    asyncio.run(run_autorecovery(autorecovery_settings(arguments, config), print_line))
    return EXIT_OK


def _add_broker(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "broker",
        help="run a Pulsar broker until SIGTERM",
        description="Run a broker that serves Pulsar clients until SIGTERM.",
    )
    parser.add_argument("--id", help="name in traces, for example broker-1")
    parser.add_argument("--zookeeper", metavar="ADDRESS", help=ZOOKEEPER_ADDRESS)
    _add_conf(parser, "broker.conf of Pulsar")
    _add_port(parser, "--port", "port for Pulsar clients")
    _add_port(parser, "--web-port", "port for the HTTP admin API")
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
    parser = verbs.add_parser(
        "shell",
        help="inspect a bookie's files, and query or repair a cluster",
        description="Inspect the files of a bookie that is not running (--data, or --journal and"
        " --ledgers), or query and repair a cluster (--zookeeper). Names and options are those of"
        " BookKeeper's `bin/bookkeeper shell`.",
        epilog="`labkit shell VERB --help` describes a verb.",
    )
    parser.set_defaults(run=_shell)
    cast("IntermixedParser", parser).fill_when_used(_add_shell_arguments)


def _add_shell_arguments(parser: argparse.ArgumentParser) -> None:
    from labkit.views.shell.command import add_arguments

    add_arguments(parser)


def _shell(arguments: Arguments) -> int:
    from labkit.views.shell.command import run_shell

    return run_shell(arguments, _print)


def _add_search(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "search",
        help="search simulated runs for broken promises",
        description="Simulate one random scenario per seed, check the promises of each run, and"
        " print the smallest scenario that breaks one.",
    )
    parser.add_argument(
        "--variant",
        default="",
        help="name of the bug to plant, such as 'ack after one bookie' (default: none)",
    )
    parser.add_argument(
        "--seeds", type=int, default=1000, metavar="N", help="number of seeds (default: 1000)"
    )
    parser.add_argument(
        "--first", type=int, default=0, metavar="SEED", help="first seed (default: 0)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=0,
        metavar="N",
        help="number of processes (default: one per processor)",
    )
    parser.add_argument(
        "--spark",
        default="",
        metavar="FOLDER",
        help="search on Spark, and add a row for each seed to the Parquet table in this folder",
    )
    parser.set_defaults(run=_search)


def _search(arguments: Arguments) -> int:
    from labkit.cli.search import run_search

    return EXIT_OK if run_search(arguments, _print) else EXIT_FAILED


def _add_open(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "open",
        help="open the link to a simulated run or to a crash map",
        description="Repeat the simulated run or the crash map that a link describes, write it to a"
        " page in this folder, and open the page in a browser.",
    )
    parser.add_argument("link", metavar="LINK", help="the link, or its part after the #")
    parser.add_argument(
        "--no-browser", action="store_true", help="only write the page, without opening a browser"
    )
    parser.set_defaults(run=_open)


def _open(arguments: Arguments) -> int:
    from labkit.course.runs.open_run import page_of
    from labkit.worlds.sim.run_link import parse_link

    link = parse_link(arguments.link)
    path = Path(f"{link.kind}-{link.digest[:8]}.html").absolute()
    path.write_text(page_of(link), encoding="utf-8")
    if link.code:
        _print(f"This code of a learner ran, and is not executed now:\n\n{link.code}\n")
    _print(f"wrote the page to {path}")
    if not arguments.no_browser:
        webbrowser.open(path.as_uri())
    return EXIT_OK


def _add_workshop(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "workshop",
        help="check the bookie or client that you build",
        description="Check the bookie or client that you build in lessons 02 to 08, 16 and 17.",
    )
    parser.add_argument("track", choices=("bookie", "client"), help="what you are building")
    parser.add_argument(
        "step",
        type=int,
        nargs="?",
        metavar="STEP",
        help="number of the step to check (default: all steps, up to the first that fails)",
    )
    parser.add_argument("--file", type=Path, help="your file (default: mybookie.py or myclient.py)")
    parser.set_defaults(run=_workshop)


def _workshop(arguments: Arguments) -> int:
    from labkit.course.workshop.command import run_workshop
    from labkit.course.workshop.tracks import NoSuchStepError

    try:
        return EXIT_OK if run_workshop(arguments, _print) else EXIT_FAILED
    except NoSuchStepError as error:
        return _fail(str(error))


def _add_client(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "client",
        help="run the client that you build against a cluster",
        description="Run the client that you build in lesson 17 against a running cluster.",
    )
    parser.add_argument(
        "--file", type=Path, default=Path("myclient.py"), help="your file (default: myclient.py)"
    )
    parser.add_argument("--id", default="client", help="name in traces (default: client)")
    parser.add_argument("--zookeeper", required=True, metavar="ADDRESS", help=ZOOKEEPER_ADDRESS)
    uses = parser.add_subparsers(dest="use", required=True)
    write = uses.add_parser(
        "write", help="write each line of standard input as an entry of a new ledger"
    )
    write.add_argument(
        "--sizes",
        default="3,2,2",
        metavar="E,QW,QA",
        help="ensemble size, write quorum and ack quorum (default: 3,2,2)",
    )
    write.add_argument(
        "--window",
        type=int,
        default=100,
        metavar="N",
        help="maximum number of unacknowledged entries (default: 100)",
    )
    take = uses.add_parser("take", help="recover a ledger and print its entries")
    take.add_argument("ledger", type=int, metavar="LEDGER", help="ledger id")
    _add_trace_from_start(parser)
    parser.set_defaults(run=_client)


def _client(arguments: Arguments) -> int:
    from labkit.course.workshop.client.process import ProgramError, run_command

    try:
        asyncio.run(run_command(arguments, _print))
    except ProgramError as error:
        return _fail(f"{arguments.id}: {error}")
    except SystemExit:  # asyncio lets this exception propagate.
        return _fail(f"{arguments.id}: a task in {arguments.file} called `sys.exit`")
    return EXIT_OK


def _add_grade(verbs: Verbs) -> None:
    add_grade(verbs).set_defaults(run=_grade)


def _grade(arguments: Arguments) -> int:
    from labkit.course.grading.class_list import ClassListError
    from labkit.course.grading.command import run_grade
    from labkit.course.grading.gradebook import PointsError
    from labkit.course.grading.submissions import SubmissionsError

    try:
        run_grade(arguments, _print)
    except (SubmissionsError, PointsError, ClassListError) as error:
        return _fail(str(error))
    return EXIT_OK


def _add_handout(verbs: Verbs) -> None:
    add_handout(verbs).set_defaults(run=_handout)


def _handout(arguments: Arguments) -> int:
    from labkit.course.grading.class_list import ClassListError
    from labkit.course.grading.command import run_handout
    from labkit.course.grading.handout import HandoutError

    try:
        run_handout(arguments, _print)
    except (HandoutError, ClassListError) as error:
        return _fail(str(error))
    return EXIT_OK


def _add_inventory(verbs: Verbs) -> None:
    add_inventory(verbs).set_defaults(run=_inventory)


def _inventory(arguments: Arguments) -> int:
    from labkit.course.inventory.sitting import run_inventory

    try:
        run_inventory(arguments, _print, input)
    except EOFError:
        return _fail("the input ended before the last question; nothing was saved")
    return EXIT_OK


def _add_doctor(verbs: Verbs) -> None:
    parser = verbs.add_parser(
        "doctor",
        help="check whether this machine has everything that labkit needs",
        description="Check whether this machine has everything that labkit needs, and print how to"
        " fix what is missing. The exit code is 1 if a required check fails.",
    )
    parser.set_defaults(run=_doctor)


def _doctor(_: Arguments) -> int:
    from labkit.cli.doctor import exit_code, format_results, run_doctor

    results = run_doctor()
    _print(format_results(results))
    return exit_code(results)


def _fail(line: str) -> int:
    _warn(line)
    return EXIT_FAILED


def _warn_of_unused(conf: Path | None, unused: Mapping[str, str]) -> None:
    from labkit.worlds.live.config.known_keys import describe_unused

    if unused:
        _warn(f"{conf}: {describe_unused(unused)}; labkit's site lists the keys that it uses")


def _warn(line: str) -> None:
    print_error(f"labkit: {line}")
