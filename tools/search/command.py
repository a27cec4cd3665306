"""What `python -m tools.search` does: a long search in a folder, or counterexamples again."""

import math
import signal
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.variants.variants import VARIANTS
from tools.search.long_search import REPORT, resume
from tools.search.new_counterexamples import keep, smallest

_FOLDER = Path("search")
_SEEDS_PER_VARIANT = 5000


def run_search(arguments: Namespace, tell: Callable[[str], None]) -> bool:
    """Search and report; returns whether all went well: nothing broke, or each counterexample that
    was asked for was found.

    Raises `BKIncorrectParameterException` for arguments that make no sense and for a folder with
    another search, and `OSError` when the folder cannot be written.
    """
    if arguments.variant not in VARIANTS:
        raise BKIncorrectParameterException(
            f"no variant {arguments.variant!r}; there are: {', '.join(filter(None, VARIANTS))}"
        )
    if math.isnan(arguments.minutes):
        raise BKIncorrectParameterException("--minutes nan is not a time: give a number")
    if min(arguments.minutes, arguments.seeds, arguments.jobs) < 0:
        raise BKIncorrectParameterException("--minutes, --seeds and --jobs cannot be negative")
    # A stop signal ends the search like Ctrl-C: the findings are kept.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.counterexamples:
        return _keep_counterexamples(arguments, tell)
    folder = arguments.folder or _FOLDER
    search = resume(folder, arguments.variant)
    search.run(seconds=arguments.minutes * 60, seeds=arguments.seeds, jobs=arguments.jobs)
    tell("\n" + (folder / REPORT).read_text(encoding="utf-8"))
    tell(f"The state is in the folder {folder}: run this command again to continue.")
    return not search.count.broken


def _keep_counterexamples(arguments: Namespace, tell: Callable[[str], None]) -> bool:
    if arguments.minutes or arguments.folder:
        raise BKIncorrectParameterException(
            "--counterexamples is another search: it takes --seeds, not --minutes or --folder"
        )
    # A folder that cannot be written is reported before the search.
    arguments.counterexamples.mkdir(parents=True, exist_ok=True)
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
