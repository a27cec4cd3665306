"""Compares replicated adds with Apache BookKeeper's client and bookies.

    python -m benchmarks.replication [--quick] [--gb 1]

Both systems run at the same time, each with a ZooKeeper, three bookies and one client in separate
processes, and take turns working: E=3, Qw=3, Qa=2, CRC32C, entries of 1 KiB, wire protocol version
2, every journal write synced, at most 1,000 unconfirmed adds. If Maven or a JDK is missing, only
labkit is measured.

Both kinds of bookie read the same `bk_server.conf` with BookKeeper's defaults, except that
BookKeeper's limit of 10,000 pending adds is disabled. With these settings, BookKeeper's journal
waits up to 2 ms for more adds to join a group, whereas labkit's does not wait. The JVMs run with
768 MB of heap, the G1 collector and the full JIT compiler, and are warmed up with 24 seconds of
load. The Java client's limit of 5,000 adds per second is disabled.

- CPU is the user and kernel time of the client and the bookies.
- p99 is the latency of adds at half the rate that the same system reached just before.
- Tailing reads come from the memtable of an open ledger; catch-up reads come from the entry log
  after a restart of the bookies.
- Re-replication is timed from the auditor's first mark until no ledger is marked.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure, ratios
from benchmarks.repair_speed import repair_figure, start_figure
from benchmarks.systems import BOOKKEEPER, LABKIT, ClientEnded, System, get_apache, start_system
from tests.interop.apache import Apache, NotToBeHad

_WINDOW = 1000
_LEDGER_COUNTS = (1, 10, 1000, 10_000)
_ADDS, _CPU, _CLIENT_CPU = "adds/s", "CPU us", "client CPU us"
_P99, _P99_SAME = "p99 at half", "p99 at the same load"
_TAIL, _TAIL_BATCH = "tailing", "tailing, batches"
_CATCH_UP, _CATCH_UP_BATCH = "catch-up", "catch-up, batches"
_READ_GOALS = {_TAIL: 2.0, _CATCH_UP: 2.0, _CATCH_UP_BATCH: 1.5}
_GROWTH_GOALS = {1000: 0.8, 10_000: 0.7}


@dataclass(frozen=True, slots=True)
class Plan:
    seconds: float
    warm_up_s: float
    repeat_count: int
    read_entries: int
    gigabytes: float


@dataclass(slots=True)
class Repeats:
    """The results of one system, one list for each figure."""

    of: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    growth: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    failure: str = ""
    """Why growth results are missing, or "" if they are present."""


def main() -> None:
    parser = benchmark_parser(__doc__, quick="shorter repeats")
    parser.add_argument(
        "--gb", type=float, default=0.2, help="gigabytes to re-replicate (default: 0.2)"
    )
    options = parser.parse_args()
    plan = Plan(4.0, 24.0, 5, 50_000, options.gb)
    if options.quick:
        plan = Plan(1.5, 4.0, 3, 20_000, options.gb / 4)
    with measuring("replication", only_print=options.quick) as found:
        found.figures += asyncio.run(_measure(found.folder, plan))


async def _measure(folder: Path, plan: Plan) -> list[Figure]:
    try:
        (folder / "classes").mkdir()
        apache: Apache | None = get_apache(folder / "classes")
        reason = ""
    except NotToBeHad as missing:
        apache, reason = None, f"Apache BookKeeper is not available: {missing}"
    # Measure these two first, because the comparison writes tens of gigabytes.
    alone = [await start_figure(folder, 3), await repair_figure(folder, plan.gigabytes, 3)]
    repeats = await _compare(folder, apache, plan)
    return [*_figures(repeats, reason), *alone, *_absolute(repeats)]


async def _compare(folder: Path, apache: Apache | None, plan: Plan) -> dict[str, Repeats]:
    async with AsyncExitStack() as stack:
        systems: list[System] = []
        for name, kind in ((BOOKKEEPER, apache), (LABKIT, None)):
            if kind is not None or name == LABKIT:
                (folder / name).mkdir()
                systems.append(await start_system(folder / name, kind))
                stack.push_async_callback(systems[-1].stop)
        old = {}
        for system in systems:
            old[system.name] = await _fill(system, plan.read_entries)
            await system.restart_bookies()
            await _warm_up(system, plan, old[system.name])
        repeats = {system.name: Repeats() for system in systems}
        for _ in range(plan.repeat_count):
            for system in systems:
                await _repeat(system, plan, repeats, old[system.name])
        for system in systems:
            await _grow(system, plan.seconds, repeats[system.name])
        return repeats


async def _fill(system: System, entry_count: int) -> int:
    """Write a ledger with `entry_count` entries, and return its id."""
    ledger = int((await system.do("open", 1))["ledger"])
    await system.do("fill", entry_count, _WINDOW)
    return ledger


async def _warm_up(system: System, plan: Plan, old: int) -> None:
    await system.do("open", 1)
    await system.do("add", plan.warm_up_s, _WINDOW, 0)
    for _ in range(2):
        await system.do("read", old, "entries")
        await system.do("read", old, "batch")


async def _settle() -> None:
    """Write dirty pages to disk, so that earlier writes do not slow down the next measurement."""
    await asyncio.to_thread(os.sync)


async def _repeat(system: System, plan: Plan, repeats: dict[str, Repeats], old: int) -> None:
    results = repeats[system.name].of
    await _settle()
    await system.do("open", 1)
    client_before, bookies_before = system.cpu_s()
    full = await system.do("add", plan.seconds, _WINDOW, 0)
    client_after, bookies_after = system.cpu_s()
    count, rate = full["count"], full["count"] / full["seconds"]
    client = (client_after - client_before) * 1e6 / count
    results[_ADDS].append(rate)
    results[_CLIENT_CPU].append(client)
    results[_CPU].append(client + (bookies_after - bookies_before) * 1e6 / count)
    half = await system.do("add", plan.seconds, _WINDOW, rate / 2)
    results[_P99].append(half["p99_ms"])
    same_rate = repeats.get(BOOKKEEPER, repeats[LABKIT]).of[_ADDS][-1] / 2
    same = await system.do("add", plan.seconds, _WINDOW, same_rate)
    results[_P99_SAME].append(same["p99_ms"])
    new = await _fill(system, plan.read_entries // 2)
    for name, ledger, how in (
        (_TAIL, new, "entries"),
        (_TAIL_BATCH, new, "batch"),
        (_CATCH_UP, old, "entries"),
        (_CATCH_UP_BATCH, old, "batch"),
    ):
        read = await system.do("read", ledger, how)
        results[name].append(read["count"] / read["seconds"])


async def _grow(system: System, seconds: float, repeats: Repeats) -> None:
    try:
        for count in _LEDGER_COUNTS * 2:
            await _settle()
            await system.do("open", count)
            added = await system.do("add", seconds, _WINDOW, 0)
            repeats.growth[count].append(added["count"] / added["seconds"])
    except ClientEnded as ended:
        repeats.failure = str(ended)


def _figures(repeats: dict[str, Repeats], reason: str) -> list[Figure]:
    times = f"times {BOOKKEEPER}'s"
    rows = [
        _against(repeats, reason, _ADDS, f"adds a second, {times}", "/s", at_least=2.0),
        _against(repeats, reason, _CPU, f"CPU of an add, all processes, {times}", "us", 0.4),
        _against(repeats, reason, _CLIENT_CPU, f"CPU of an add, the client alone, {times}", "us"),
        _against(repeats, reason, _P99, f"p99 at half the own maximum, {times}", "ms", 0.8),
        _against(
            repeats, reason, _P99_SAME, f"p99 at half of {BOOKKEEPER}'s maximum, {times}", "ms"
        ),
    ]
    for name in (_TAIL, _TAIL_BATCH, _CATCH_UP, _CATCH_UP_BATCH):
        target = _READ_GOALS.get(name)
        title = f"reads a second, {name}, {times}"
        rows.append(_against(repeats, reason, name, title, "/s", at_least=target))
    for count in _LEDGER_COUNTS[1:]:
        for system, each in repeats.items():
            rates = each.growth[count]
            grown = ratios(rates, each.growth[1][: len(rates)])
            name = f"{system}: adds a second to {count:,} ledgers in turn, of those to one"
            target = _GROWTH_GOALS.get(count) if system == LABKIT else None
            note = _span(rates, "/s") if rates else each.failure
            rows.append(Figure(name, grown, at_least=target, note=note))
    return rows


def _against(
    repeats: dict[str, Repeats],
    reason: str,
    name: str,
    title: str,
    unit: str,
    at_most: float | None = None,
    at_least: float | None = None,
) -> Figure:
    ours = repeats[LABKIT].of[name]
    if BOOKKEEPER not in repeats:
        note = f"{_span(ours, unit)}; {reason}"
        return Figure(title, (), "", at_least, at_most, note)
    theirs = repeats[BOOKKEEPER].of[name]
    note = f"{_span(ours, unit)} to {_span(theirs, unit)}"
    measured, is_work = ratios(ours, theirs), name in (_CPU, _CLIENT_CPU)
    return Figure(title, measured, "", at_least, at_most, note, is_work)


def _span(values: Sequence[float], unit: str) -> str:
    low, middle, high = min(values), sorted(values)[len(values) // 2], max(values)
    decimals = 0 if middle >= 100 else 1
    return f"{middle:,.{decimals}f} {unit} ({low:,.{decimals}f} to {high:,.{decimals}f})"


def _absolute(repeats: dict[str, Repeats]) -> list[Figure]:
    """Return the absolute results for the chart; the system is a condition of each figure."""
    rows = (
        (_ADDS, "adds", " a second"),
        (_CPU, "CPU of an add, all processes", " µs"),
        (_P99, "p99 of an add at half the own maximum", " ms"),
        (_P99_SAME, "p99 of an add at the same load", " ms"),
        (_TAIL, "tailing reads", " a second"),
        (_CATCH_UP, "catch-up reads", " a second"),
        (_TAIL_BATCH, "tailing reads in batches", " a second"),
        (_CATCH_UP_BATCH, "catch-up reads in batches", " a second"),
    )
    figures = []
    for system in (name for name in (LABKIT, BOOKKEEPER) if name in repeats):
        where = {"system": system}
        for name, title, unit in rows:
            values = repeats[system].of[name]
            figures.append(Figure(title, values, unit, is_work=name == _CPU, conditions=where))
        for count in (_LEDGER_COUNTS[0], _LEDGER_COUNTS[-1]):
            title, rates = f"adds to {count:,} ledgers in turn", repeats[system].growth[count]
            figures.append(Figure(title, rates, " a second", conditions=where))
    return figures


if __name__ == "__main__":
    main()
