"""Implements `python -m tools.search`, which runs a long search or a search for small
counterexamples.
"""

import math
import os
import signal
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.views.spark.session import spark_session
from labkit.worlds.sim.variants.variants import VARIANTS
from tools.search.long_search import REPORT, resume
from tools.search.new_counterexamples import keep, smallest

_FOLDER = Path("search")
_SEEDS_PER_VARIANT = 5000


def run_search(arguments: Namespace, print_line: Callable[[str], None]) -> bool:
    """Search, and print a report.

    Return True if no promise was broken, or if all requested counterexamples were found. Raises
    `BKIncorrectParameterException` if an argument is invalid, `MissingPart` if Spark cannot be
    started, and `OSError` if the folder cannot be written.
    """
    if arguments.variant not in VARIANTS:
        raise BKIncorrectParameterException(
            f"unknown variant {arguments.variant!r}; valid variants:"
            f" {', '.join(filter(None, VARIANTS))}"
        )
    if math.isnan(arguments.minutes):
        raise BKIncorrectParameterException("--minutes must be a number, got nan")
    if min(arguments.minutes, arguments.seeds) < 0:
        raise BKIncorrectParameterException("--minutes and --seeds must not be negative")
    # Let SIGTERM, like Ctrl-C, stop the search and keep its results.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.counterexamples:
        return _keep_counterexamples(arguments, print_line)
    folder = arguments.folder or _FOLDER
    # By default, use all processors of this machine.
    os.environ.setdefault("SPARK_MASTER", "local[*]")
    spark = spark_session("long search")
    is_sound = resume(
        *(spark, folder, arguments.variant),
        seconds=arguments.minutes * 60,
        seeds=arguments.seeds,
    )
    print_line("\n" + (folder / REPORT).read_text(encoding="utf-8"))
    print_line(f"The runs are in folder {folder}; run this command again to resume the search.")
    return is_sound


def _keep_counterexamples(arguments: Namespace, print_line: Callable[[str], None]) -> bool:
    if arguments.minutes or arguments.folder:
        raise BKIncorrectParameterException(
            "--counterexamples can be combined with --seeds, but not with --minutes or --folder"
        )
    # Create the folder before the search, so that errors are reported immediately.
    arguments.counterexamples.mkdir(parents=True, exist_ok=True)
    missing = []
    for variant in [arguments.variant] if arguments.variant else VARIANTS:
        if not VARIANTS[variant].breaks:
            continue
        shrunk = smallest(variant, arguments.seeds or _SEEDS_PER_VARIANT)
        if shrunk is None:
            missing.append(variant)
        else:
            print_line(f"\n{keep(shrunk, arguments.counterexamples)}\n{shrunk}")
    if missing:
        print_line(f"no counterexample found for {', '.join(missing)}")
    return not missing
