"""`labkit search`: runs the scenarios of a range of seeds, and shrinks the first failing one."""

from argparse import Namespace
from collections.abc import Callable

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.explore.search import NEVER_ENDS, scenario_of, search
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.variants.variants import VARIANTS

_BROKERS_EVERY = 5


def run_search(arguments: Namespace, print_line: Callable[[str], None]) -> bool:
    """Run the seeds, print the first violation, and return whether every promise held.

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
    findings = search([_scenario(seed, variant) for seed in seeds], jobs=arguments.jobs)
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


def _scenario(seed: int, variant: str) -> Scenario:
    # Without a variant, every fifth scenario includes brokers.
    if not variant and seed % _BROKERS_EVERY == 0:
        return random_topic_scenario(seed)
    return scenario_of(seed, variant)
