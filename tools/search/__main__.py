"""The long search: tries seeds for hours, counts what they reach, and continues at the next call.

python -m tools.search --folder search --minutes 60       continue the search in that folder
python -m tools.search --counterexamples FOLDER            write the smallest counterexamples
"""

import argparse
import sys
from pathlib import Path

from labkit.system.model.errors import BKIncorrectParameterException
from tools.search.command import run_search


def main(arguments: list[str] | None = None) -> int:
    """Search; returns 1 if a promise broke, or if a counterexample was not found."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.search", description="Look for broken promises for hours."
    )
    parser.add_argument("--variant", default="", help="the mistake to plant (default: none)")
    limit = parser.add_mutually_exclusive_group()
    limit.add_argument("--minutes", type=float, default=0, help="run this long (default: no limit)")
    limit.add_argument("--seeds", type=int, default=0, help="how many more (default: no limit)")
    parser.add_argument(
        "--jobs", type=int, default=0, help="processes (default: one per processor)"
    )
    parser.add_argument(
        "--folder", type=Path, help="the folder of the search's state (default: search)"
    )
    parser.add_argument(
        "--counterexamples",
        type=Path,
        metavar="FOLDER",
        help="write the smallest scenario that --variant, or else each one, breaks",
    )
    try:
        return 0 if run_search(parser.parse_args(arguments), print) else 1
    except (BKIncorrectParameterException, OSError) as error:
        print(f"tools.search: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
