"""Interrupting a notebook cell ends the run that the cell is waiting for."""

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from labkit.worlds.sim.explore.search import Findings, search
from labkit.worlds.sim.explore.shrink import shrink
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment

MOST_TURNS = 1_000_000
INTERRUPTED_AT = 1000
"""By then, the cell's thread is waiting for the run."""
TURNS: list[int] = []


@dataclass(frozen=True, slots=True, repr=False)
class Interrupted(Value):
    """A very long step; soon after it begins, the user interrupts the cell.

    `reaches_main` says whether the system delivers the signal to the main thread or to the thread
    that runs the world.
    """

    client: str = "w"
    when: Moment = START
    reaches_main: bool = True

    async def run(self, node: ClientNode) -> None:
        thread = threading.main_thread() if self.reaches_main else threading.current_thread()
        assert thread.ident is not None
        for turn in range(MOST_TURNS):
            if turn == INTERRUPTED_AT:
                signal.pthread_kill(thread.ident, signal.SIGINT)
            TURNS.append(turn)
            await asyncio.sleep(0.001)


ENDLESS = Scenario(workload=(Interrupted(),), limit_s=3000.0)


def in_a_cell(call: Callable[[], object]) -> None:
    """Make the call as a notebook cell does, inside an event loop that handles no signals."""

    async def cell() -> None:
        call()

    before = threading.enumerate()
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(cell())
    finally:
        loop.close()
        # If the interrupt arrives while the thread is starting, the thread is left behind but soon
        # ends.
        for thread in threading.enumerate():
            if thread not in before:
                thread.join()


@pytest.mark.parametrize("call", [lambda: run(ENDLESS), lambda: shrink(ENDLESS)])
@pytest.mark.parametrize("where", [in_a_cell, lambda call: call()])
def test_an_interrupt_ends_the_run_and_is_raised_where_the_run_was_called(
    where: Callable[[Callable[[], object]], None], call: Callable[[], object]
) -> None:
    TURNS.clear()
    with pytest.raises(KeyboardInterrupt):
        where(call)
    assert INTERRUPTED_AT <= len(TURNS) < MOST_TURNS / 10


def test_an_interrupt_that_the_system_gives_to_another_thread_ends_the_run() -> None:
    TURNS.clear()
    steps = (Interrupted(reaches_main=False),)
    with pytest.raises(KeyboardInterrupt):
        in_a_cell(lambda: run(replace(ENDLESS, workload=steps)))
    assert INTERRUPTED_AT <= len(TURNS) < MOST_TURNS / 10


@pytest.mark.parametrize("where", [in_a_cell, lambda call: call()])
def test_an_interrupt_ends_the_runs_that_a_search_has_under_way(
    where: Callable[[Callable[[], object]], None],
) -> None:
    TURNS.clear()
    found: list[Findings] = []
    where(lambda: found.append(search([ENDLESS], jobs=1)))
    assert [(each.tried, each.was_interrupted) for each in found] == [(0, True)]
    assert INTERRUPTED_AT <= len(TURNS) < MOST_TURNS / 10


def test_runs_after_an_interrupted_one_go_to_their_ends() -> None:
    with pytest.raises(KeyboardInterrupt):
        in_a_cell(lambda: run(ENDLESS))
    in_a_cell(lambda: run(Scenario()))
