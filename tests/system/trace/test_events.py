import re
from collections.abc import Sequence

import pytest

from labkit.system.trace.events import DEFAULTS, Event, Fields
from labkit.system.trace.kinds import KINDS, Kind, Link, validate
from labkit.system.trace.log import TraceLog
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.run import run


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kinds_causes_are_known_kinds_and_never_itself(kind: Kind) -> None:
    assert {name for name, _ in kind.causes} <= KINDS.keys() - {kind.name}


def test_causes_of_causes_come_to_an_end() -> None:
    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above
        return 1 + max((depth(c, (*above, name)) for c, _ in KINDS[name].causes), default=0)

    assert max(map(depth, KINDS)) == depth("batch.stored") == 8


def test_the_columns_that_can_be_recorded_are_those_of_an_event() -> None:
    at_once = ("seq", "time_us", "node", "kind", "cause", "ledger", "entry")
    types = {name: kind for name, kind in Event.__annotations__.items() if name not in at_once}
    assert types == Fields.__annotations__
    assert tuple(DEFAULTS) == Event._fields


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kinds_words_use_its_columns(kind: Kind) -> None:
    columns = {"node", *kind.columns.split()}
    assert columns <= set(Event._fields)
    for template in (kind.sentence, kind.caption or ""):
        assert set(re.findall(r"{(\w+)}", template)) <= columns
    assert bool(kind.details) == ("detail" in columns)


def pairs_of(rows: Sequence[Event]) -> set[tuple[str, str]]:
    """Return the kinds of each event and its cause."""
    log = TraceLog()
    log.add(rows)
    log.settle()
    return {(event.kind, log.events[event.cause].kind) for event in log.events if event.cause >= 0}


@pytest.mark.slow
def test_every_rule_finds_the_cause_of_an_event_in_some_run() -> None:
    rules = [(kind.name, *rule) for kind in KINDS.values() for rule in kind.causes]
    unused = {(kind, cause) for kind, cause, _ in rules}
    on_bookies = {cause for _, cause, link in rules if link is Link.FROM_PEER}
    for seed in range(60):
        for scenario in (random_scenario(seed), random_topic_scenario(seed)):
            events = run(scenario).events
            # BookKeeper's bookies do not report what they do.
            by_clients = [event for event in events if event.kind not in on_bookies]
            unused -= pairs_of(events) | pairs_of(by_clients)
            if not unused:
                return
    assert unused == set()


@pytest.mark.parametrize("seed", range(8))
def test_simulated_runs_fill_only_the_columns_of_each_kind(seed: int) -> None:
    for event in (*run(random_scenario(seed)).events, *run(random_topic_scenario(seed)).events):
        validate(event)
