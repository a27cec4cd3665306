"""Runs a long search for broken promises on Spark, which you can interrupt and resume.

python -m tools.search --folder search --minutes 60        resume the search in that folder
python -m tools.search --counterexamples FOLDER            write the smallest counterexamples
"""

import argparse
import sys
from pathlib import Path

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.model.missing_part import MissingPart
from tools.search.command import run_search


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
        return 0 if run_search(parser.parse_args(arguments), print) else 1
    except (BKIncorrectParameterException, MissingPart, OSError) as error:
        print(f"tools.search: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
