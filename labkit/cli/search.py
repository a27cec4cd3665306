"""`labkit search`: try a range of seeds and print the smallest scenario that breaks a promise."""

from argparse import Namespace
from collections.abc import Callable

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import drawn_topic
from labkit.worlds.sim.explore.search import NEVER_ENDS, scenario_of, search
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.variants.variants import VARIANTS

_WITH_BROKERS_EVERY = 5


def run_search(arguments: Namespace, say: Callable[[str], None]) -> bool:
    """Run the seeds, print what was found, and return whether every promise held.

    Raises `BKIncorrectParameterException` for an unknown variant or a negative number.
    """
    variant = arguments.variant
    if variant not in VARIANTS:
        raise BKIncorrectParameterException(
            f"unknown variant {variant!r}; variants: {', '.join(filter(None, VARIANTS))}"
        )
    if min(arguments.first, arguments.seeds, arguments.jobs) < 0:
        raise BKIncorrectParameterException("--first, --seeds and --jobs cannot be negative")
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    findings = search([_scenario(seed, variant) for seed in seeds], jobs=arguments.jobs)
    finding = findings.first
    if finding is None:
        say(f"\n{findings}")
        return True
    say(f"\n{finding.promise}: {finding.reason}")
    if finding.promise == NEVER_ENDS:
        say(repr(finding.scenario))
    else:
        say(str(shrink(finding.scenario, finding.promise)))
    return False


def _scenario(seed: int, variant: str) -> Scenario:
    """The scenario of a seed.  Without a variant, every fifth seed has brokers."""
    if not variant and seed % _WITH_BROKERS_EVERY == 0:
        return drawn_topic(seed)
    return scenario_of(seed, variant)
