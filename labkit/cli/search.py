"""`labkit search` runs the scenarios of a range of seeds, and shrinks the first one that fails."""

import time
from argparse import Namespace
from collections.abc import Callable

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.search import (
    NEVER_ENDS,
    Finding,
    Findings,
    scenario_of_seed,
    search,
)
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import from_json
from labkit.worlds.sim.variants.variants import VARIANTS


def run_search(arguments: Namespace, print_line: Callable[[str], None]) -> bool:
    """Run the scenarios of these seeds, print the first broken promise, and return whether every
    promise was kept.

    Raises `BKIncorrectParameterException` if the variant is unknown or a number is negative.
    """
    variant = arguments.variant
    if variant not in VARIANTS:
        raise BKIncorrectParameterException(
            f"unknown variant {variant!r}; valid variants: {', '.join(filter(None, VARIANTS))}"
        )
    if min(arguments.first, arguments.seeds, arguments.jobs) < 0:
        raise BKIncorrectParameterException("--first, --seeds and --jobs must not be negative")
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.spark:
        findings = _search_on_spark(seeds, variant, arguments.spark)
    else:
        scenarios = [scenario_of_seed(seed, variant) for seed in seeds]
        findings = search(scenarios, jobs=arguments.jobs)
    finding = findings.first
    if finding is None:
        print_line(f"\n{findings}")
        return True
    print_line(f"\n{finding.promise}: {finding.reason}")
    if finding.promise == NEVER_ENDS:
        print_line(repr(finding.scenario))
    else:
        shrunk = shrink(finding.scenario, finding.promise)
        link = run(shrunk.scenario).link(at=shrunk.verdict.seq)
        print_line(f"{shrunk}\n\n{link}\n(`labkit open LINK` opens this link to the run)")
    return False


def _search_on_spark(seeds: range, variant: str, folder: str) -> Findings:
    """Search on Spark, which adds the runs to the table in the folder; return the table's first
    finding.
    """
    # Imported here because importing pyarrow is slow and most searches do not need it.
    from labkit.views.spark.search import search as search_on_spark  # noqa: PLC0415
    from labkit.views.spark.session import spark_session  # noqa: PLC0415

    started_at = time.monotonic()
    rows = search_on_spark(spark_session("labkit search"), seeds, folder, variant=variant)
    tried = rows.where("seed is not null").count()
    row = rows.where("size(broken) > 0").orderBy(rows["seed"].asc_nulls_last(), "scenario").first()
    found = (
        ()
        if row is None
        else (Finding(from_json(row["scenario"]), row["broken"][0], row["reasons"][0]),)
    )
    return Findings(found, tried, time.monotonic() - started_at)
