"""Runs of scenarios, what their traces show, and bugs to plant."""

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any, NamedTuple, TypeVar

import pytest

from labkit.system.check import CHECKS, Check, broken, check_all
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import how_it_ended
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace

Bug = TypeVar("Bug", bound=Callable[..., Any])


def run_safely(scenario: Scenario) -> Trace:
    """Run the scenario, and check that no promise is broken."""
    trace = run(scenario)
    assert broken(check_all(trace)) == [], scenario
    return trace


def checks_of(promise: str) -> list[type[Check]]:
    """Return the check of this promise, in a list."""
    return [check for check in CHECKS if check.__name__ == promise]


class Mistake(NamedTuple):
    """A bug that replaces an attribute of `owner`. The scenario or seed `where` then breaks the
    promise.
    """

    promise: str
    where: Any
    owner: object
    attribute: str
    bug: object

    def plant(self, patch: pytest.MonkeyPatch) -> list[type[Check]]:
        """Plant the bug, and return the check of the promise, in a list."""
        patch.setattr(self.owner, self.attribute, self.bug)
        return checks_of(self.promise)


def planted(
    into: list[Any], promise: str, where: object, owner: object, attribute: str
) -> Callable[[Bug], Bug]:
    """Return a decorator that adds a `Mistake` to a list of parameters of tests."""

    def add(bug: Bug) -> Bug:
        mistake = Mistake(promise, where, owner, attribute, bug)
        into.append(pytest.param(mistake, id=bug.__name__))
        return bug

    return add


def before_epilogue(trace: Trace) -> list[Event]:
    return list(takewhile(lambda event: event.kind != "epilogue.started", trace.events))


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
