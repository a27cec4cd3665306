"""Check all runs with TLC: live runs, and simulated runs with and without a bug.

    LABKIT_TLA=FOLDER:FOLDER python -m tests.tla                the runs of `scenarios`, `live_runs`
    LABKIT_TLA=FOLDER:FOLDER python -m tests.tla --as-it-is     without amendments

See `tlc` for the contents of the directories. The exit status is 1 if a verdict is not the expected
one.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Sequence

from tests.interop.apache import NotToBeHad
from tests.tla.amendments import AMENDMENTS
from tests.tla.ledger_states import Run
from tests.tla.live_runs import STORIES, live_run
from tests.tla.scenarios import MISTAKES, SCENARIOS, run_in
from tests.tla.tlc import TlcError, get_tlc


def main(words: Sequence[str] | None = None) -> int:
    """Check the runs and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.tla")
    parser.add_argument(
        "--as-it-is", action="store_true", help="judge by the specification without amendments"
    )
    options = parser.parse_args(words)
    amendments = () if options.as_it_is else AMENDMENTS
    surprises = 0
    try:
        tlc = get_tlc()
        for name, run, is_correct in _runs():
            judgement = tlc.judge(run, amendments)
            surprises += judgement.is_behaviour != is_correct
            print(f"{name}: {judgement}", flush=True)
    except (NotToBeHad, TlcError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 1 if surprises and not options.as_it_is else 0


def _runs() -> Iterator[tuple[str, Run, bool]]:
    """Yield the name of each run, the run, and whether it is correct."""
    for name in SCENARIOS:
        yield name, run_in(name), True
    for variant, name in MISTAKES.items():
        yield f"{name} ({variant})", run_in(name, variant), False
    for name in STORIES:
        yield f"{name}, live", asyncio.run(live_run(name)), True


if __name__ == "__main__":
    sys.exit(main())
