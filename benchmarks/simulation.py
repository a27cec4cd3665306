"""Measures the speed of the simulated world, and how quickly searches find planted bugs.

    python -m benchmarks.simulation

The command replaces all tables of tools/search/results.md. `--quick` only prints the first table,
and `--mistakes` replaces only the table of bugs. Runs and shrinking are measured in processor time,
which does not depend on other load on the machine.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.measure import Figure, machine, table
from benchmarks.orders import orders_table
from benchmarks.searching import bugs_table
from labkit.system.check import check_all
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.machine.links import LATENCY_S
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import run_all
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write

_PAGE = Path(__file__).parent.parent / "tools" / "search" / "results.md"
_REPEATS = 5
_SEEDS = 40
_TIMERS = 200_000
_CLUSTER = Cluster(bookies=5)
_WRITE = Write(entries=200, window=10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--quick", action="store_true", help="only measure the speed, and print it")
    only.add_argument(
        "--mistakes", action="store_true", help="only measure how soon planted bugs are found"
    )
    options = parser.parse_args()
    if options.quick:
        sys.stdout.write(_speeds())
        return
    if not options.mistakes:
        replace_part("figures", _speeds())
        replace_part("every order", orders_table())
    replace_part("mistakes", f"Searched on {machine(Path.cwd())}.\n\n{bugs_table()}")


def _speeds() -> str:
    writer = Scenario(_CLUSTER, (_WRITE,))
    three = (_WRITE, Read(polls=5, poll_ms=8), Recover(client="x", when=At(60)))
    figures = [
        _loop_figure(),
        *_run_figures("200 entries, no fault", [writer] * _SEEDS, lambda _: None),
        *_run_figures("200 entries, 5 faults", _storms(writer), lambda _: None),
        *_run_figures("the same, all checks on", _storms(writer), check_all),
        *_run_figures(
            "the same, with a reader and a recoverer", _storms(Scenario(_CLUSTER, three)), check_all
        ),
    ]
    return f"Measured on {machine(Path.cwd())}.\n\n{table(figures)}"


def replace_part(part: str, text: str) -> None:
    begin, end = f"<!-- {part}: begin -->\n", f"<!-- {part}: end -->\n"
    before, _, rest = _PAGE.read_text().partition(begin)
    _PAGE.write_text(before + begin + text + end + rest.partition(end)[2])
    sys.stdout.write(f"\n{text}")


def _storms(scenario: Scenario) -> list[Scenario]:
    return [storm(scenario, seed, fault_count=5) for seed in range(_SEEDS)]


def _loop_figure() -> Figure:
    """Measure bare steps of the event loop: a chain of timers, each of which sets the next one."""
    rates = []
    for _ in range(_REPEATS):
        began = time.process_time()
        SimLoop().run(_timers())
        rates.append(_TIMERS / (time.process_time() - began))
    return Figure("bare steps of the event loop", rates, "/s", at_least=100_000)


async def _timers() -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    done = loop.create_future()

    def step(left: int) -> None:
        if left:
            loop.call_at_world_time(loop.now + LATENCY_S, step, left - 1)
        else:
            done.set_result(None)

    step(_TIMERS)
    await done


def _run_figures(
    name: str, scenarios: Sequence[Scenario], look: Callable[[Trace], object]
) -> list[Figure]:
    """Measure how many of these scenarios, and how many events, a search runs per second."""
    seeds, events, note = [], [], ""
    for _ in range(_REPEATS):
        began = time.process_time()
        event_count = step_count = 0
        for trace in run_all(scenarios):
            look(trace)
            event_count += len(trace.events)
            step_count += trace.step_count
        took_s = time.process_time() - began
        seeds.append(len(scenarios) / took_s)
        events.append(event_count / took_s)
        count = len(scenarios)
        note = f"{event_count / count:,.0f} events, {step_count / count:,.0f} steps a run"
    return [
        Figure(f"5 bookies, {name}: runs", seeds, "/s", at_least=20, note=note),
        Figure(f"5 bookies, {name}: events", events, "/s", at_least=100_000),
    ]


if __name__ == "__main__":
    main()
