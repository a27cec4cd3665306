"""What `labkit search` does: a long search in a folder, or counterexamples written again."""

import signal
from argparse import Namespace
from collections.abc import Callable

from labkit.model.errors import BKIncorrectParameterException
from labkit.sim.explore.counterexamples import keep, smallest
from labkit.sim.explore.long_search import resume
from labkit.sim.explore.report import report
from labkit.sim.variants import VARIANTS

_SEEDS_PER_VARIANT = 5000


def run_search(arguments: Namespace, tell: Callable[[str], None]) -> bool:
    """Search, and tell what was found; whether all went well: nothing broke, or what had to be
    found was found.

    Raises `BKIncorrectParameterException` for arguments that make no sense and for a folder with
    another search, and `OSError` when the folder cannot be written.
    """
    if arguments.variant not in VARIANTS:
        raise BKIncorrectParameterException(
            f"no variant {arguments.variant!r}; there are: {', '.join(filter(None, VARIANTS))}"
        )
    if min(arguments.minutes, arguments.seeds, arguments.jobs) < 0:
        raise BKIncorrectParameterException("--minutes, --seeds and --jobs cannot be negative")
    # As when a night is over: what was found is kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.counterexamples:
        return _keep_counterexamples(arguments, tell)
    search = resume(arguments.folder, arguments.variant)
    search.go_on(seconds=arguments.minutes * 60, seeds=arguments.seeds, jobs=arguments.jobs)
    tell(f"\n{report(search.state)}")
    tell(f"\nAll of it is in the folder {arguments.folder}: run this again to go on.")
    return not search.count.broken


def _keep_counterexamples(arguments: Namespace, tell: Callable[[str], None]) -> bool:
    missing = []
    for variant in [arguments.variant] if arguments.variant else VARIANTS:
        if not VARIANTS[variant].breaks:
            continue
        shrunk = smallest(variant, arguments.seeds or _SEEDS_PER_VARIANT, arguments.jobs)
        if shrunk is None:
            missing.append(variant)
        else:
            tell(f"\n{keep(shrunk, arguments.counterexamples)}\n{shrunk}")
    if missing:
        tell(f"nothing found for {', '.join(missing)}")
    return not missing
