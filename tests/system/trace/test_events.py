import re

import pytest

from labkit.system.trace.events import DEFAULTS, Event, Fields
from labkit.system.trace.kinds import KINDS, Kind, validate
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


@pytest.mark.parametrize("seed", range(8))
def test_simulated_runs_fill_only_the_columns_of_each_kind(seed: int) -> None:
    for event in (*run(random_scenario(seed)).events, *run(random_topic_scenario(seed)).events):
        validate(event)
