"""Compares the speed of a search on Spark with that of the local search.

    python -m benchmarks.spark_search [--quick]

Both run the same seeds on two processors, one after the other. Neither is measured until its
processes have completed some runs.

- Local: `labkit search`, which generates the scenarios, runs them and checks the promises.
- Spark: a round of `labkit search --spark`. It also computes the digest of each run, lists the
  situations that the run reached, writes the rows to the table, and counts them.
"""

from time import perf_counter

from pyspark.sql import SparkSession

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure, per_second, ratios
from labkit.views.spark.search import Trial, record, run_trials
from labkit.views.spark.session import spark_session
from labkit.worlds.sim.explore.search import scenario_of_seed, search
from labkit.worlds.sim.explore.situations.targeting import Aim

_SEEDS = 1024
"""A round of about a minute, as in a search that has run for a while."""
_REPEATS = 4
_WARM_UP = 32
_JOBS = 2


def main() -> None:
    quick = benchmark_parser(__doc__, quick="one repeat with fewer seeds").parse_args().quick
    seeds, repeat_count = (range(_SEEDS // 4), 1) if quick else (range(_SEEDS), _REPEATS)
    with measuring("spark-search", only_print=quick) as found:
        table = str(found.folder)
        spark = spark_session("benchmark")
        try:
            _on_spark(spark, range(_WARM_UP * 2), table)
            pairs = [(_local(seeds), _on_spark(spark, seeds, table)) for _ in range(repeat_count)]
        finally:
            spark.stop()
        local, on_spark = ([pair[side] for pair in pairs] for side in (0, 1))
        figure = Figure(
            "runs per second on Spark, of the local search",
            ratios(local, on_spark),
            at_least=0.9,
            note=f"{per_second(len(seeds), on_spark)}; local: {per_second(len(seeds), local)}",
        )
        found.figures.append(figure)


def _local(seeds: range) -> float:
    times: dict[int, float] = {}
    ends = _WARM_UP, _WARM_UP + len(seeds)

    def record_time(tried: int, _: int) -> None:
        if tried in ends:
            times[tried] = perf_counter()

    # Add scenarios before and after the measured ones, so that both processes are busy throughout
    # the measurement.
    around = [scenario_of_seed(seed) for seed in range(_WARM_UP)]
    began = perf_counter()
    scenarios = [scenario_of_seed(seed) for seed in seeds]
    generated_in_s = perf_counter() - began
    search([*around, *scenarios, *around], stop_at=0, jobs=_JOBS, on_progress=record_time)
    return generated_in_s + times[ends[1]] - times[ends[0]]


def _on_spark(spark: SparkSession, seeds: range, folder: str) -> float:
    began = perf_counter()
    record(Aim(), run_trials(spark, [Trial(seed) for seed in seeds], folder, ""))
    return perf_counter() - began


if __name__ == "__main__":
    main()
