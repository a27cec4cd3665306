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
from labkit.views.shell.options import ZOOKEEPER_ADDRESS, Option, flag, option
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
    _add_verbs(verbs)
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


def _add_verbs(verbs: Verbs) -> None:
    _add(
        verbs,
        "lab",
        _lab,
        "open the course in JupyterLab",
        "Open a notebook in JupyterLab. Without an argument, this copies the course's notebooks to"
        f" ./{NOTEBOOKS}, unless they exist, and opens the tour.",
        option("NOTEBOOK", f"notebook to open (default: {TOUR})", nargs="?"),
        flag("--no-browser", "print the URL instead of opening a browser"),
    )
    _add(
        verbs,
        "local",
        _local,
        "run a cluster on this machine until Ctrl-C",
        "Run ZooKeeper, bookies with autorecovery, and brokers until Ctrl-C.",
        option("--bookies N", "number of bookies (default: 3)", type=int, default=3),
        option("--brokers N", "number of brokers (default: 0)", type=int, default=0),
        option(
            "--data FOLDER",
            "folder for the cluster's data (default: a temporary folder, deleted at the end)",
            type=Path,
        ),
        option(
            "--zookeeper ADDRESS",
            f"use a running ZooKeeper instead of starting one: {ZOOKEEPER_ADDRESS}",
            default="",
        ),
    )
    trace_from_start = flag(
        "--trace-from-start", "buffer the events from startup until a trace listener connects"
    )
    _add(
        verbs,
        "bookie",
        _bookie,
        "run a bookie until SIGTERM",
        "Run a bookie until SIGTERM. Give --id, --data and --zookeeper, or a configuration file.",
        option("--id ID", "bookie id, for example b0"),
        option("--data FOLDER", "folder for the journal and the ledgers", type=Path),
        option("--zookeeper ADDRESS", ZOOKEEPER_ADDRESS),
        _conf("bk_server.conf of BookKeeper"),
        option("--port PORT", "port for clients (default: any free one)", type=int),
        option(
            "--flush-interval-ms MS",
            "maximum time between two checkpoints (default: 10000)",
            type=int,
        ),
        option(
            "--store MYBOOKIE.PY",
            "file of the bookie that you build; its parts replace labkit's storage",
            type=Path,
        ),
        trace_from_start,
    )
    _add(
        verbs,
        "autorecovery",
        _autorecovery,
        "run autorecovery until SIGTERM",
        "Run an autorecovery process until SIGTERM: it takes part in the election of the auditor,"
        " and re-replicates under-replicated ledgers.",
        option("--id ID", "name in the auditor election (default: the host name)"),
        option("--zookeeper ADDRESS", ZOOKEEPER_ADDRESS),
        _conf("bk_server.conf of BookKeeper"),
        trace_from_start,
    )
    _add(
        verbs,
        "broker",
        _broker,
        "run a Pulsar broker until SIGTERM",
        "Run a broker that serves Pulsar clients until SIGTERM.",
        option("--id ID", "name in traces, for example broker-1"),
        option("--zookeeper ADDRESS", ZOOKEEPER_ADDRESS),
        _conf("broker.conf of Pulsar"),
        option("--port PORT", "port for Pulsar clients (default: any free one)", type=int),
        option("--web-port PORT", "port for the HTTP admin API (default: any free one)", type=int),
        trace_from_start,
    )
    shell = _add(
        verbs,
        "shell",
        _shell,
        "inspect a bookie's files, and query or repair a cluster",
        "Inspect the files of a bookie that is not running (--data, or --journal and --ledgers), or"
        " query and repair a cluster (--zookeeper). Names and options are those of BookKeeper's"
        " `bin/bookkeeper shell`.",
    )
    shell.epilog = "`labkit shell VERB --help` describes a verb."
    cast("IntermixedParser", shell).fill_when_used(_add_shell_arguments)
    _add(
        verbs,
        "search",
        _search,
        "search simulated runs for broken promises",
        "Simulate one random scenario per seed, check the promises of each run, and print the"
        " smallest scenario that breaks one.",
        option(
            "--variant VARIANT",
            "name of the bug to plant, such as 'ack after one bookie' (default: none)",
            default="",
        ),
        option("--seeds N", "number of seeds (default: 1000)", type=int, default=1000),
        option("--first SEED", "first seed (default: 0)", type=int, default=0),
        option("--jobs N", "number of processes (default: one per processor)", type=int, default=0),
        option(
            "--spark FOLDER",
            "search on Spark, and add a row for each seed to the Parquet table in this folder",
            default="",
        ),
    )
    _add(
        verbs,
        "open",
        _open,
        "open the link to a simulated run or to a crash map",
        "Repeat the simulated run or the crash map that a link describes, write it to a page in"
        " this folder, and open the page in a browser.",
        option("LINK", "the link, or its part after the #"),
        flag("--no-browser", "only write the page, without opening a browser"),
    )
    workshop = _add(
        verbs,
        "workshop",
        _workshop,
        "check the bookie or client that you build",
        "Check the bookie or client that you build in lessons 02 to 08, 16 and 17.",
        option("--file FILE", "your file (default: mybookie.py or myclient.py)", type=Path),
    )
    workshop.add_argument("track", choices=("bookie", "client"), help="what you are building")
    option(
        "STEP",
        "number of the step to check (default: all steps, up to the first that fails)",
        type=int,
        nargs="?",
    ).add_to(workshop)
    client = _add(
        verbs,
        "client",
        _client,
        "run the client that you build against a cluster",
        "Run the client that you build in lesson 17 against a running cluster.",
        option(
            "--file FILE",
            "your file (default: myclient.py)",
            type=Path,
            default=Path("myclient.py"),
        ),
        option("--id ID", "name in traces (default: client)", default="client"),
        option("--zookeeper ADDRESS", ZOOKEEPER_ADDRESS, required=True),
        trace_from_start,
    )
    uses = client.add_subparsers(dest="use", required=True)
    write = uses.add_parser(
        "write", help="write each line of standard input as an entry of a new ledger"
    )
    for each in (
        option(
            "--sizes E,QW,QA",
            "ensemble size, write quorum and ack quorum (default: 3,2,2)",
            default="3,2,2",
        ),
        option(
            "--window N",
            "maximum number of unacknowledged entries (default: 100)",
            type=int,
            default=100,
        ),
    ):
        each.add_to(write)
    take = uses.add_parser("take", help="recover a ledger and print its entries")
    option("LEDGER", "ledger id", type=int).add_to(take)
    add_grade(verbs).set_defaults(run=_grade)
    add_handout(verbs).set_defaults(run=_handout)
    add_inventory(verbs).set_defaults(run=_inventory)
    _add(
        verbs,
        "doctor",
        _doctor,
        "check whether this machine has everything that labkit needs",
        "Check whether this machine has everything that labkit needs, and print how to fix what is"
        " missing. The exit code is 1 if a required check fails.",
    )


def _add(
    verbs: Verbs,
    name: str,
    run: Callable[[Arguments], int],
    help_text: str,
    description: str,
    *options: Option,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=help_text, description=description)
    for each in options:
        each.add_to(parser)
    parser.set_defaults(run=run)
    return parser


def _conf(file: str) -> Option:
    help_text = f"configuration file, such as {file}; command line options override it"
    return option("--conf FILE", help_text, type=Path)


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


def _lab(arguments: Arguments) -> int:
    from labkit.cli import doctor
    from labkit.cli.lab import open_lab
    from labkit.shipped_files import copy_notebooks

    doctor.python()
    doctor.notebook_part("jupyterlab")
    notebook = arguments.notebook or TOUR
    if sys.platform == "win32":
        _print(doctor.format_results([doctor.result_of("System", doctor.system)]))
        notebook = arguments.notebook or FIRST_LESSON
    else:
        doctor.java()
        doctor.zookeeper()
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


def _autorecovery(arguments: Arguments) -> int:
    from labkit.worlds.live.processes.autorecovery_process import run_autorecovery
    from labkit.worlds.live.processes.server_config import autorecovery_settings, read_server_config

    config = read_server_config(arguments.conf, bookie=False)
    _warn_of_unused(arguments.conf, config.unused_keys)
    asyncio.run(run_autorecovery(autorecovery_settings(arguments, config), print_line))
    return EXIT_OK


def _broker(arguments: Arguments) -> int:
    from labkit.worlds.live.processes.broker_config import broker_settings
    from labkit.worlds.live.processes.broker_process import run_broker

    settings, unused = broker_settings(arguments)
    _warn_of_unused(arguments.conf, unused)
    asyncio.run(run_broker(settings, print_line))
    return EXIT_OK


def _add_shell_arguments(parser: argparse.ArgumentParser) -> None:
    from labkit.views.shell.command import add_arguments

    add_arguments(parser)


def _shell(arguments: Arguments) -> int:
    from labkit.views.shell.command import run_shell

    return run_shell(arguments, _print)


def _search(arguments: Arguments) -> int:
    from labkit.cli.search import run_search

    return EXIT_OK if run_search(arguments, _print) else EXIT_FAILED


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


def _workshop(arguments: Arguments) -> int:
    from labkit.course.workshop.command import run_workshop

    return EXIT_OK if run_workshop(arguments, _print) else EXIT_FAILED


def _client(arguments: Arguments) -> int:
    from labkit.course.workshop.client.process import run_command

    try:
        asyncio.run(run_command(arguments, _print))
    except SystemExit:  # asyncio lets this exception propagate.
        return _fail(f"{arguments.id}: a task in {arguments.file} called `sys.exit`")
    return EXIT_OK


def _grade(arguments: Arguments) -> int:
    from labkit.course.grading.command import run_grade

    run_grade(arguments, _print)
    return EXIT_OK


def _handout(arguments: Arguments) -> int:
    from labkit.course.grading.command import run_handout

    run_handout(arguments, _print)
    return EXIT_OK


def _inventory(arguments: Arguments) -> int:
    from labkit.course.inventory.sitting import run_inventory

    try:
        run_inventory(arguments, _print, input)
    except EOFError:
        return _fail("the input ended before the last question; nothing was saved")
    return EXIT_OK


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
