"""Runs of scenarios, and what their traces show."""

from collections.abc import Iterable

from labkit.system.check import CHECKS, Check, broken, check_all
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import how_it_ended
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace


def run_safely(scenario: Scenario) -> Trace:
    """Run the scenario, and check that no promise is broken."""
    trace = run(scenario)
    assert broken(check_all(trace)) == [], scenario
    return trace


def checks_of(promise: str) -> list[type[Check]]:
    """Return the check of this promise, in a list."""
    return [check for check in CHECKS if check.__name__ == promise]


def of(trace: Trace, kind: str, **fields: object) -> list[Event]:
    return [
        event
        for event in trace.events
        if event.kind == kind
        and all(getattr(event, name) == value for name, value in fields.items())
    ]


def ends(trace: Trace) -> list[str]:
    return [how_it_ended(event) for event in of(trace, "step.ended")]


def confirmed(trace: Trace) -> set[tuple[int, int]]:
    return {(event.ledger, event.entry) for event in of(trace, "lac.advanced", node="w")}


def copies(trace: Trace, bookies: Iterable[str] | None = None) -> dict[tuple[int, int], int]:
    """Return how many bookies have each entry with the correct payload at the end of the run."""
    written = {(e.ledger, e.entry): e.checksum for e in of(trace, "add.pushed", node="w")}
    found: dict[tuple[int, int], int] = {}
    for event in of(trace, "read.done", node="epilogue"):
        key = event.ledger, event.entry
        if bookies is None or event.peer in bookies:
            assert event.checksum == written[key]
            found[key] = found.get(key, 0) + 1
    return found
