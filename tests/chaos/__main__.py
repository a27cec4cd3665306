"""Kill, pause and disconnect real bookies at random while clients write, read and recover ledgers.

    python -m tests.chaos --minutes 10              a long run with a new seed
    python -m tests.chaos --minutes 10 --seed 7     repeat the schedule of an earlier run
    python -m tests.chaos --hostile                 measure what each hostile peer costs a bookie,
                                                    and update the table in docs/security.md
    python -m tests.chaos --hostile half_frames     measure one peer and leave the table alone

The run uses five bookies, ZooKeeper and nine clients on this machine. The program exits with status
1 if a confirmed entry is lost, an entry has wrong bytes, an entry that has been read disappears, a
ledger does not get all of its copies back, or the trace breaks a promise of `labkit.system.check`.

The seed determines the schedule of faults and the random choices of each client, but not which
packets are affected by a fault. If networks cannot be cut on this machine, the run says so and
leaves out this kind of fault.
"""

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from labkit.system.trace.parquet import write_parquet
from tests.chaos import network
from tests.chaos.costs import HEAD, measure, write_table
from tests.chaos.run import Outcome, run_chaos
from tests.chaos.schedule import CUT, KILL, PAUSE, make_schedule

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
BAR_WIDTH = 30
BOOKIES = [f"b{number}" for number in range(5)]


def main(words: Sequence[str] | None = None) -> int:
    """Run with these command-line arguments and return the exit status."""
    words = sys.argv[1:] if words is None else list(words)
    options = _parse(words)
    if options.hostile is not None:
        return _be_hostile(options.hostile)
    reason = "" if network.is_private() else network.why_not()
    if not reason and not network.is_private():
        network.go_private("tests.chaos", [*words, "--seed", str(options.seed)])
    kinds = (KILL, PAUSE) if reason else (KILL, PAUSE, CUT)
    seconds = options.minutes * 60
    schedule = make_schedule(options.seed, seconds, BOOKIES, kinds)
    print(f"seed {options.seed}, {seconds:g} s, {len(schedule)} faults: {', '.join(kinds)}")
    if reason:
        print(f"without network cut-off: {reason}")
    for fault in schedule if options.show else ():
        print(fault)
    sys.stdout.flush()
    bar = _Bar(seconds)
    outcome = asyncio.run(run_chaos(options.seed, schedule, bar.tell))
    bar.end()
    return _report(options.seed, outcome)


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: 10)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10**6), help="default: a new one"
    )
    parser.add_argument("--hostile", nargs="*", metavar="PEER", help="hostile peers instead")
    parser.add_argument("--show", action="store_true", help="print the schedule of faults")
    return parser.parse_args(words)


def _be_hostile(names: Sequence[str]) -> int:
    costs = asyncio.run(measure(lambda cost: print(cost.row(), flush=True), names))
    if not names:
        write_table("bookie", *HEAD, *(cost.row() for cost in costs))
    return 0


class _Bar:
    """A one-line progress bar on standard error."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = time.monotonic()

    def tell(self, phase: str, outcome: Outcome) -> None:
        passed = time.monotonic() - self._began
        done = min(BAR_WIDTH, int(BAR_WIDTH * passed / self._seconds))
        bar = "#" * done + "-" * (BAR_WIDTH - done)
        counts = outcome.book.counts
        line = (
            f"[{bar}] {passed:5.0f} s  {phase}: {len(outcome.faults)} faults,"
            f" {counts['entries confirmed']:,} entries confirmed,"
            f" {counts['entries read']:,} read, {len(outcome.wrong)} wrong"
        )
        print(f"\r{line:<110}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        print(file=sys.stderr)


def _report(seed: int, outcome: Outcome) -> int:
    """Print and save the summary. If something went wrong, also save the trace."""
    kinds = Counter(fault.kind for fault in outcome.faults)
    verdicts: Counter[str] = Counter(verdict.outcome for verdict in outcome.verdicts)
    lines = [
        f"seed {seed}",
        f"faults: {_words(kinds)}",
        f"clients: {_words(dict(sorted(outcome.book.counts.items())))}",
        f"every copy was there {outcome.repaired_s:.1f} s after all ledgers were open",
        f"trace: {len(outcome.events):,} events; promises: {_words(verdicts)}",
        *(f"not judged: {v.name}: {v.reason}" for v in outcome.verdicts if v.outcome == "unknown"),
        *(outcome.wrong or ["nothing lost, nothing wrong"]),
    ]
    text = "\n".join(lines) + "\n"
    print(text, end="")
    ARTIFACTS.mkdir(exist_ok=True)
    (ARTIFACTS / f"chaos-{seed}.txt").write_text(text)
    if outcome.wrong:
        trace = ARTIFACTS / f"chaos-{seed}.parquet"
        write_parquet(outcome.events, trace)
        print(f"the trace: {trace}\nagain: python -m tests.chaos --seed {seed}")
    return int(bool(outcome.wrong))


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
