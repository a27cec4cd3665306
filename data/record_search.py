"""Records the runs that docs/search-runs.ipynb analyses.

They are a search of the correct system, and one for each planted bug.

    python data/record_search.py --folder FOLDER    # an hour on two processors

The folder keeps the runs, so you can interrupt the recording and start it again.
"""

import argparse
from pathlib import Path

import pyarrow.parquet as pq

from labkit.shipped_files import shipped
from labkit.views.spark.search import search
from labkit.views.spark.session import spark_session
from labkit.worlds.sim.variants.variants import VARIANTS

SEEDS = range(1200)
SEEDS_OF_A_BUG = range(96)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True, help="folder that keeps the runs")
    folder = parser.parse_args().folder
    spark = spark_session("record searches")
    for variant in VARIANTS:
        if variant:
            search(spark, SEEDS_OF_A_BUG, str(folder), variant=variant)
        else:
            search(spark, SEEDS, str(folder), stop_at=0)
    rows = pq.read_table(folder).sort_by([("variant", "ascending"), ("round", "ascending")])
    # Spark does not read nanoseconds, which pyarrow would write.
    file = shipped("data") / "search-runs.parquet"
    pq.write_table(rows, file, compression="zstd", coerce_timestamps="us")


if __name__ == "__main__":
    main()
