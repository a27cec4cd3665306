"""Feed malformed and hostile input to all of labkit's decoders.

    python -m tests.fuzz --seconds 600                 run all decoders one by one
    python -m tests.fuzz --first 20000                 continue where an earlier run stopped
    python -m tests.fuzz --target "journal 6" --only 17       repeat one case
    python -m tests.fuzz --target "journal 6" --input FILE    repeat one input

If something is found, the run prints how to reproduce it and exits with status 1.
"""

import argparse
import sys
import time
import tracemalloc
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from tests.fuzz.harness import Case, Finding, Target, shrink, try_input
from tests.fuzz.targets import TARGETS

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
PROGRESS_S = 1.0
SHOWN_BYTES = 200


def main(words: Sequence[str] | None = None) -> int:
    """Run with these command-line arguments and return the exit status."""
    options = _parse(words)
    targets = [TARGETS[name] for name in options.target or TARGETS]
    if options.input:
        found = [_report(t, options.input.read_bytes(), "") for t in targets]
    elif options.only is not None:
        found = [_report(t, Case(t, options.only).data(), f"case {options.only}") for t in targets]
    else:
        return _run(targets, options.first, options.seconds)
    return int(any(found))


def _parse(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long (default: 60)")
    parser.add_argument("--first", type=int, default=0, help="the first case's number")
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--input", type=Path, help="this input alone")
    parser.add_argument("--target", action="append", choices=TARGETS, help="default: all")
    return parser.parse_args(words)


def _run(targets: Sequence[Target], first: int, seconds: float) -> int:
    begun = told = time.monotonic()
    tracemalloc.start()
    try:
        for number in count(first):
            for target in targets:
                if _report(target, Case(target, number).data(), f"case {number}"):
                    return 1
            now = time.monotonic()
            if now - told >= PROGRESS_S:
                told = now
                _progress(targets, first, number, now - begun)
            if now - begun >= seconds:
                print(f"\nnothing found; go on with --first {number + 1}")
                return 0
    finally:
        tracemalloc.stop()
    raise AssertionError("unreachable: the count is infinite")


def _progress(targets: Sequence[Target], first: int, number: int, seconds: float) -> None:
    done = (number + 1 - first) * len(targets)
    line = (
        f"{seconds:6.0f} s  {len(targets)} decoders, case {number}, {done / seconds:.0f} a second"
    )
    print(f"\r{line}", end="", file=sys.stderr, flush=True)


def _report(target: Target, data: bytes, name: str) -> bool:
    """Try the input, print any finding, and return whether there was a finding."""
    finding = try_input(target, data)
    if finding is not None:
        _print_finding(target, shrink(target, data, finding), finding, name)
    return finding is not None


def _print_finding(target: Target, data: bytes, finding: Finding, name: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    words = f"fuzz {target.name} {name}".split()
    file = ARTIFACTS / f"{'-'.join(words)}.bin"
    file.write_bytes(data)
    print(f"\n{target.name}, {name or 'this input'}: {finding.story}")
    print(f"  {len(data)} bytes: {data[:SHOWN_BYTES].hex(' ', 4)}")
    print(f'  again: python -m tests.fuzz --target "{target.name}" --input {file}')


if __name__ == "__main__":
    sys.exit(main())
