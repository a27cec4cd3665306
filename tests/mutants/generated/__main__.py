"""Measure the quick tests with generated mutants, a sample at a time.

    python -m tests.mutants.generated client --count 100       the first 100 mutants of seed 1
    python -m tests.mutants.generated client --minutes 20      as many of these as time allows
    python -m tests.mutants.generated client --again           retry those that survived
    python -m tests.mutants.generated client --again --wide    use the tests of all packages
    python -m tests.mutants.generated --show                   show the results of all packages

A run continues where the previous one stopped; its state is stored in `tests/artifacts/mutants`.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

import pytest

from tests.mutants.generated.operators import Mutant
from tests.mutants.generated.reached import ARGUMENTS, PACKAGES, ROOT, folders, recorded
from tests.mutants.generated.sample import ALIVE, Sample, drawn, line_of
from tests.mutants.generated.trials import Trial, Trials


def main(words: Sequence[str] | None = None) -> int:
    options = _parse(words)
    for package in options.packages or PACKAGES:
        sample = Sample(package, options.seed)
        if not options.show:
            _go_on(sample, drawn(package, options.seed)[: options.count], options)
        print(line_of(sample))
        for name in sample.open():
            print(f"    {name}")
    return 0


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants.generated",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("packages", nargs="*", choices=[[], *PACKAGES], default=[])
    parser.add_argument("--count", type=int, default=100, help="how many are drawn of a package")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=30.0, help="try no mutant after this")
    parser.add_argument("--again", action="store_true", help="try those that survived again")
    parser.add_argument("--wide", action="store_true", help="with the tests of all packages")
    parser.add_argument("--show", action="store_true", help="try none")
    return parser.parse_args(words)


def _go_on(sample: Sample, mutants: list[Mutant], options: argparse.Namespace) -> None:
    """Try the mutants that are due, one after another."""
    where = folders(sample.package, all_of_them=options.wide)
    reached = recorded(where)
    end = time.monotonic() + 60 * options.minutes
    due_again = ALIVE if options.again else ()
    sources = {mutant.file: (ROOT / mutant.file).read_bytes() for mutant in mutants}

    def due() -> Iterator[Mutant]:
        for mutant in mutants:
            if sample.outcomes.get(mutant.name) not in (None, *due_again):
                continue
            if time.monotonic() > end:
                return
            if (ROOT / mutant.file).read_bytes() != sources[mutant.file]:
                pytest.exit(f"{mutant.file} changed while its mutants were tried: start again", 1)
            yield mutant

    def report(trial: Trial) -> None:
        sample.add(trial)
        print(f"{trial.outcome.value:9}  {trial.seconds:5} s  {trial.mutant.name}", flush=True)

    files = sorted(file for file in reached.files() if file.startswith(tuple(where)))
    trials = Trials(due(), reached, report)
    pytest.main([*ARGUMENTS, "--no-header", "--capture=no", *files], plugins=[trials])


if __name__ == "__main__":
    sys.exit(main())
