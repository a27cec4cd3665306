"""How fast a replicated add is, against Apache BookKeeper's own client and bookies.

    python benchmarks/replication.py [--quick] [--gb 1]

Both systems are up at the same time, each with a ZooKeeper, three bookies and one client in
separate processes, and work in turn: E=3, Qw=3, Qa=2, CRC32C, entries of 1 KiB, wire protocol
version 2, every journal write synced.  Prints a table; the full run also puts it into
`docs/benchmarks.md`, and a picture next to it.  Without Maven or a JDK labkit runs alone.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from chart import Bars, chart
from measure import Figure, machine, ratios, table
from repair_speed import repair_figure, start_figure
from systems import BOOKKEEPER, LABKIT, ClientEnded, System, get_apache, start_system

from tests.interop.apache import Apache, NotToBeHad

_DOCS = Path(__file__).parent.parent / "docs"
_PAGE, _PICTURE = _DOCS / "benchmarks.md", _DOCS / "replication-speed.svg"
_BEGIN, _END = "<!-- replication: begin -->\n", "<!-- replication: end -->\n"

_WINDOW = 1000
_LEDGER_COUNTS = (1, 10, 1000, 10_000)
_ADDS, _CPU, _CLIENT_CPU = "adds/s", "CPU us", "client CPU us"
_P99, _P99_SAME = "p99 at half", "p99 at the same load"
_TAIL, _TAIL_BATCH = "tailing", "tailing, batches"
_CATCH_UP, _CATCH_UP_BATCH = "catch-up", "catch-up, batches"


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is measured."""

    seconds: float
    warm_up_s: float
    repeat_count: int
    read_entries: int
    gigabytes: float


@dataclass(slots=True)
class Repeats:
    """What one system reached, by figure."""

    of: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    growth: defaultdict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    failure: str = ""
    """Why some of the growth is missing."""


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short repeats, no page")
    parser.add_argument("--gb", type=float, default=0.2, help="to replicate again (default: 0.2)")
    options = parser.parse_args()
    plan = Plan(4.0, 24.0, 5, 50_000, options.gb)
    if options.quick:
        plan = Plan(1.5, 4.0, 3, 20_000, options.gb / 4)
    with tempfile.TemporaryDirectory(prefix="labkit-benchmark-") as name:
        folder = Path(name)
        measured_on = machine(folder)
        figures, bars = asyncio.run(_measure(folder, plan))
    text = f"Measured on {measured_on}.\n\n{table(figures)}"
    sys.stdout.write(text)
    if not options.quick:
        before, _, rest = _PAGE.read_text().partition(_BEGIN)
        _PAGE.write_text(before + _BEGIN + text + _END + rest.partition(_END)[2])
        _PICTURE.write_text(chart("One client, three bookies: E=3, Qw=3, Qa=2, 1 KiB", bars))


async def _measure(folder: Path, plan: Plan) -> tuple[list[Figure], list[Bars]]:
    try:
        (folder / "classes").mkdir()
        apache: Apache | None = get_apache(folder / "classes")
        reason = ""
    except NotToBeHad as missing:
        apache, reason = None, f"Apache BookKeeper is not available: {missing}"
    # First what needs little room: a comparison fills tens of gigabytes.
    alone = [await start_figure(folder, 3), await repair_figure(folder, plan.gigabytes, 3)]
    repeats = await _compare(folder, apache, plan)
    return [*_figures(repeats, reason), *alone], _bars(repeats)


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
    """A ledger of `entry_count` entries."""
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
    """What was written before must not be paid for by who writes next."""
    await asyncio.to_thread(os.sync)


async def _repeat(system: System, plan: Plan, repeats: dict[str, Repeats], old: int) -> None:
    mine = repeats[system.name].of
    await _settle()
    await system.do("open", 1)
    client_before, bookies_before = system.cpu_s()
    full = await system.do("add", plan.seconds, _WINDOW, 0)
    client_after, bookies_after = system.cpu_s()
    count, rate = full["count"], full["count"] / full["seconds"]
    client = (client_after - client_before) * 1e6 / count
    mine[_ADDS].append(rate)
    mine[_CLIENT_CPU].append(client)
    mine[_CPU].append(client + (bookies_after - bookies_before) * 1e6 / count)
    half = await system.do("add", plan.seconds, _WINDOW, rate / 2)
    mine[_P99].append(half["p99_ms"])
    same_rate = repeats.get(BOOKKEEPER, repeats[LABKIT]).of[_ADDS][-1] / 2
    same = await system.do("add", plan.seconds, _WINDOW, same_rate)
    mine[_P99_SAME].append(same["p99_ms"])
    new = await _fill(system, plan.read_entries // 2)
    for name, ledger, how in (
        (_TAIL, new, "entries"),
        (_TAIL_BATCH, new, "batch"),
        (_CATCH_UP, old, "entries"),
        (_CATCH_UP_BATCH, old, "batch"),
    ):
        read = await system.do("read", ledger, how)
        mine[name].append(read["count"] / read["seconds"])


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
        _against(repeats, reason, _CPU, f"CPU of an add, all processes, {times}", "us", 0.6),
        _against(repeats, reason, _CLIENT_CPU, f"CPU of an add, the client alone, {times}", "us"),
        _against(repeats, reason, _P99, f"p99 at half the own maximum, {times}", "ms", 1.0),
        _against(
            repeats, reason, _P99_SAME, f"p99 at half of {BOOKKEEPER}'s maximum, {times}", "ms"
        ),
    ]
    for name in (_TAIL, _TAIL_BATCH, _CATCH_UP, _CATCH_UP_BATCH):
        target = None if "batches" in name else 1.0
        title = f"reads a second, {name}, {times}"
        rows.append(_against(repeats, reason, name, title, "/s", at_least=target))
    for count in _LEDGER_COUNTS[1:]:
        for system, each in repeats.items():
            rates = each.growth[count]
            grown = ratios(rates, each.growth[1][: len(rates)])
            name = f"{system}: adds a second to {count:,} ledgers in turn, of those to one"
            target = 1 / 3 if system == LABKIT and count == _LEDGER_COUNTS[-1] else None
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
    """Labkit's repeats over BookKeeper's."""
    ours = repeats[LABKIT].of[name]
    if BOOKKEEPER not in repeats:
        return Figure(title, (), note=f"{_span(ours, unit)}; {reason}")
    theirs = repeats[BOOKKEEPER].of[name]
    note = f"{_span(ours, unit)} to {_span(theirs, unit)}"
    return Figure(title, ratios(ours, theirs), at_least=at_least, at_most=at_most, note=note)


def _span(values: Sequence[float], unit: str) -> str:
    low, middle, high = min(values), sorted(values)[len(values) // 2], max(values)
    places = 0 if middle >= 100 else 1
    return f"{middle:,.{places}f} {unit} ({low:,.{places}f} to {high:,.{places}f})"


def _bars(repeats: dict[str, Repeats]) -> list[Bars]:
    rows = (
        (_ADDS, "adds", "a second", False),
        (_CPU, "CPU of an add, all processes", "µs", True),
        (_P99, "p99 of an add at half the own maximum", "ms", True),
        (_P99_SAME, "p99 of an add at the same load", "ms", True),
        (_TAIL, "tailing reads", "a second", False),
        (_CATCH_UP, "catch-up reads", "a second", False),
        (_TAIL_BATCH, "tailing reads in batches", "a second", False),
        (_CATCH_UP_BATCH, "catch-up reads in batches", "a second", False),
    )
    order = [name for name in (LABKIT, BOOKKEEPER) if name in repeats]
    bars = [
        Bars(title, unit, {system: repeats[system].of[name] for system in order}, lower)
        for name, title, unit, lower in rows
    ]
    for count in (_LEDGER_COUNTS[0], _LEDGER_COUNTS[-1]):
        values = {system: repeats[system].growth[count] or [0.0] for system in order}
        bars.append(Bars(f"adds to {count:,} ledgers in turn", "a second", values))
    return bars


if __name__ == "__main__":
    main()
