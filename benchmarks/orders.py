"""Measures how many states the exhaustive search of small scenarios visits, and how quickly."""

import time
from dataclasses import replace

from labkit.worlds.sim.explore.orders.every_order import Enumeration, every_order
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write

_PATIENCE_S = 90
_RECOVER = Recover(when=On("add.pushed"))
_THREE = Write(entries=1, window=1, close=False)
_TWO = replace(_THREE, ensemble=2, write_quorum=2)
_STRIPED = replace(_THREE, entries=2, ensemble=2, write_quorum=1, ack_quorum=1)

# Each row has a name, the number of bookies, the write, and the maximum numbers of crashes and lost
# messages.
_ROWS: tuple[tuple[str, int, Write, tuple[int, int]], ...] = (
    ("2 bookies, 1 entry, the ledger left open", 2, _TWO, (0, 0)),
    ("2 bookies, 1 entry, closed", 2, replace(_TWO, close=True), (0, 0)),
    ("2 bookies, 2 entries, one at a time, left open", 2, replace(_TWO, entries=2), (0, 0)),
    ("3 bookies, 1 entry, left open", 3, _THREE, (0, 0)),
    ("3 bookies, 1 entry, closed", 3, replace(_THREE, close=True), (0, 0)),
    ("3 bookies, 2 entries in one message", 3, replace(_THREE, entries=2, window=2), (0, 0)),
    ("3 bookies, 2 entries, one at a time", 3, replace(_THREE, entries=2), (0, 0)),
    ("2 bookies, 2 entries, each on one, up to one crash", 2, _STRIPED, (1, 0)),
    ("the same, up to one loss", 2, _STRIPED, (0, 1)),
    ("2 bookies, 1 entry, up to one crash", 2, _TWO, (1, 0)),
    ("2 bookies, 1 entry, up to one loss", 2, _TWO, (0, 1)),
)


def orders_table() -> str:
    head = "| scenario | mishaps | orders | states | ends | runs of the real code | s | finding |"
    rows = [_row(*row) for row in _ROWS]
    return "\n".join((head, "|---" * 8 + "|", *rows, "", _bugs())) + "\n"


def _row(name: str, bookies: int, write: Write, mishaps: tuple[int, int]) -> str:
    found, took_s = _tried(Scenario(Cluster(bookies), (write, _RECOVER)), mishaps)
    orders = f"{found.orders:,}" if found.complete else "not all"
    finding = "; ".join(each.promise for each in found.findings) or "none"
    counts = f"{found.states:,} | {found.ends:,} | {found.runs:,}"
    failures = found.failure_combinations
    return f"| {name} | {failures} | {orders} | {counts} | {took_s:.1f} | {finding} |"


def _bugs() -> str:
    three = Scenario(workload=(_THREE, _RECOVER))
    two = Scenario(Cluster(2), (_TWO, _RECOVER))
    striped = replace(_THREE, entries=2, window=2, write_quorum=2)
    alone = replace(_THREE, ensemble=1, write_quorum=1, ack_quorum=1)
    rows: tuple[tuple[str, Scenario, tuple[int, int]], ...] = (
        ("ack after one bookie, 3 bookies, 1 entry", three, (0, 0)),
        ("recovery without fencing, 3 bookies, 1 entry", three, (0, 0)),
        ("recovery trusts one bookie, 3 bookies, 1 entry", three, (0, 0)),
        (
            "LAC out of order, 3 bookies, 2 entries, Qw = 2",
            replace(three, workload=(striped, _RECOVER)),
            (0, 0),
        ),
        ("no fencing on recovery reads, 2 bookies, 1 entry, up to one loss", two, (0, 1)),
        (
            "ack before sync, 1 bookie, 1 entry, up to one crash",
            Scenario(Cluster(1), (alone,), ends_in_power_cut=False),
            (1, 0),
        ),
    )
    lines = ["| bug | a promise that breaks | found after |", "|---|---|---|"]
    for name, scenario, mishaps in rows:
        wrong = replace(scenario, variant=name.partition(",")[0])
        found, took_s = _tried(wrong, mishaps, stop_at=1)
        promise = found.findings[0].promise if found.findings else "none"
        count = f"{found.states:,} states, {found.runs:,} runs, {took_s:.1f} s"
        lines.append(f"| {name} | {promise} | {count} |")
    return "\n".join(lines)


def _tried(
    scenario: Scenario, mishaps: tuple[int, int], stop_at: int = 0
) -> tuple[Enumeration, float]:
    began = time.process_time()
    found = every_order(
        scenario,
        crashes=mishaps[0],
        losses=mishaps[1],
        patience_s=_PATIENCE_S,
        stop_at=stop_at,
        on_progress=lambda *_: None,
    )
    return found, time.process_time() - began
