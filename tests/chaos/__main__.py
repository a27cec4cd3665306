"""Real bookies are killed, paused and cut off at random while clients write, read and recover.

    python -m tests.chaos --minutes 10              a long run, with a new seed
    python -m tests.chaos --minutes 10 --seed 7     the schedule of an earlier run again
    python -m tests.chaos --hostile                 what each hostile peer costs a bookie, and the
                                                    table in docs/security.md again
    python -m tests.chaos --hostile half_frames     one of them, and no table

Five bookies, ZooKeeper and nine clients on this machine.  Nothing that was confirmed may be lost,
no byte may be wrong, nothing that a reader got may vanish, every ledger is back at all its copies
in the end, and the trace of it all must keep every promise of `labkit.system.check`.  Ends with 1
if not.

The seed gives the schedule of faults and what each client draws; when exactly a packet meets a
fault is chance.  Where networks cannot be cut this says so, and the rest runs.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from labkit.system.trace.parquet import write_parquet
from tests.chaos import network
from tests.chaos.costs import measure, write_table
from tests.chaos.run import Outcome, run_chaos
from tests.chaos.schedule import CUT, KILL, PAUSE, make_schedule

ARTIFACTS = Path(__file__).parents[1] / "artifacts"
BAR_WIDTH = 30
BOOKIES = [f"bookie-{number}" for number in range(1, 6)]


def main(words: Sequence[str] | None = None) -> int:
    """Run as the command line says; the exit code."""
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
        write_table(costs)
    return 0


class _Bar:
    """How far a run is, in one line on standard error."""

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
            f" {counts.get('entries confirmed', 0):,} entries confirmed,"
            f" {counts.get('entries read', 0):,} read, {len(outcome.wrong)} wrong"
        )
        print(f"\r{line:<110}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        print(file=sys.stderr)


def _report(seed: int, outcome: Outcome) -> int:
    """Print the summary, and keep it; with the trace if something is wrong."""
    kinds: dict[str, int] = {}
    for fault in outcome.faults:
        kinds[fault.kind] = kinds.get(fault.kind, 0) + 1
    verdicts: dict[str, int] = {}
    for verdict in outcome.verdicts:
        verdicts[verdict.outcome] = verdicts.get(verdict.outcome, 0) + 1
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


def _words(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {what}" for what, count in counts.items())


if __name__ == "__main__":
    sys.exit(main())
