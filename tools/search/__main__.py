"""Runs a long search for broken promises on Spark, which you can interrupt and resume.

python -m tools.search --folder search --minutes 60        resume the search in that folder
python -m tools.search --counterexamples FOLDER            write the smallest counterexamples
"""

import argparse
import math
import os
import signal
import sys
from pathlib import Path

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.missing_part import MissingPart
from labkit.views.spark.session import spark_session
from labkit.worlds.sim.variants.variants import VARIANTS
from tools.search.long_search import REPORT, resume
from tools.search.new_counterexamples import keep, smallest

_FOLDER = Path("search")
_SEEDS_PER_VARIANT = 5000


def main(arguments: list[str] | None = None) -> int:
    """Search; return 1 if a promise was broken or a counterexample was not found."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.search",
        description="Search simulated runs for broken promises on Spark, for hours if you like. The"
        " search keeps its results in a folder, so you can interrupt and resume it. It uses all"
        " processors of this machine, or the cluster in SPARK_MASTER or SPARK_REMOTE.",
    )
    parser.add_argument("--variant", default="", help="name of the bug to plant (default: none)")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument(
        "--minutes", type=float, default=0, metavar="N", help="time limit (default: none)"
    )
    limit.add_argument(
        "--seeds",
        type=int,
        default=0,
        metavar="N",
        help="maximum number of seeds to try (default: no limit)",
    )
    parser.add_argument(
        "--folder", type=Path, help="folder with the results of the search (default: search)"
    )
    parser.add_argument(
        "--counterexamples",
        type=Path,
        metavar="FOLDER",
        help="instead, write the smallest counterexample of --variant, or of every variant",
    )
    try:
        return 0 if run_search(parser.parse_args(arguments)) else 1
    except (BKIncorrectParameterException, MissingPart, OSError) as error:
        print(f"tools.search: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def run_search(arguments: argparse.Namespace) -> bool:
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
        return _keep_counterexamples(arguments)
    folder = arguments.folder or _FOLDER
    # By default, use all processors of this machine.
    os.environ.setdefault("SPARK_MASTER", "local[*]")
    spark = spark_session("long search")
    is_sound = resume(
        *(spark, folder, arguments.variant),
        seconds=arguments.minutes * 60,
        seeds=arguments.seeds,
    )
    print("\n" + (folder / REPORT).read_text(encoding="utf-8"))
    print(f"The runs are in folder {folder}; run this command again to resume the search.")
    return is_sound


def _keep_counterexamples(arguments: argparse.Namespace) -> bool:
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
            print(f"\n{keep(shrunk, arguments.counterexamples)}\n{shrunk}")
    if missing:
        print(f"no counterexample found for {', '.join(missing)}")
    return not missing


if __name__ == "__main__":
    sys.exit(main())
