"""Publishes the results of a long search: updates its table in tools/search/results.md.

python -m tools.search.published FOLDER
"""

import argparse
import sys
from pathlib import Path

from benchmarks.simulation import replace_part
from labkit.views.spark.search import rows_of
from labkit.views.spark.session import spark_session
from tools.search.branches import measure_branches
from tools.search.long_search import BRANCHES, RUNS
from tools.search.report import published


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder of the search")
    folder = parser.parse_args().folder
    if not (folder / RUNS).exists():
        sys.exit(f"{folder} does not contain a search: {RUNS} does not exist")
    spark = spark_session("publish a search")
    rows = rows_of(spark, str(folder / RUNS))
    branches = measure_branches(spark, rows, str(folder / BRANCHES))
    replace_part("long search", published(rows, branches))


if __name__ == "__main__":
    main()
