"""TLC judges all runs: the correct ones and those with a mistake.

    LABKIT_TLA=FOLDER:FOLDER python -m tests.tla                the runs of `scenarios`
    LABKIT_TLA=FOLDER:FOLDER python -m tests.tla --as-it-is     without amendments

`tlc` says what the folders must have.  Ends with 1 when a verdict is not the expected one.
"""

import argparse
import sys
from collections.abc import Sequence

from tests.interop.apache import NotToBeHad
from tests.tla.amendments import AMENDMENTS
from tests.tla.scenarios import MISTAKES, SCENARIOS, run_in
from tests.tla.tlc import TlcError, get_tlc


def main(words: Sequence[str] | None = None) -> int:
    """Judge the runs; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.tla")
    parser.add_argument(
        "--as-it-is", action="store_true", help="judge by the specification without amendments"
    )
    options = parser.parse_args(words)
    amendments = () if options.as_it_is else AMENDMENTS
    wanted = [(name, "", True) for name in SCENARIOS]
    wanted += [(name, variant, False) for variant, name in MISTAKES.items()]
    surprises = 0
    try:
        tlc = get_tlc()
        for name, variant, is_correct in wanted:
            judgement = tlc.judge(run_in(name, variant), amendments)
            surprises += judgement.is_behaviour != is_correct
            print(f"{name}{f' ({variant})' if variant else ''}: {judgement}", flush=True)
    except (NotToBeHad, TlcError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 1 if surprises and not options.as_it_is else 0


if __name__ == "__main__":
    sys.exit(main())
