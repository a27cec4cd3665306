"""Tests the rules for the fields of scenario values."""

from dataclasses import fields
from typing import get_type_hints

from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.scenario_values import CLASSES
from labkit.worlds.sim.settings.value_rules import LIMITS

OWN_PACKAGES = tuple(
    f"{Scenario.__module__.removesuffix('scenario.scenario')}{name}."
    for name in ("scenario", "settings", "workload")
)


def test_every_number_in_a_scenario_has_limits() -> None:
    own = [cls for cls in CLASSES.values() if cls.__module__.startswith(OWN_PACKAGES)]
    numbers = {
        field.name
        for cls in own
        for field in fields(cls)
        if get_type_hints(cls)[field.name] in (int, float)
    }
    assert {"bookies", "for_ms", "entries", "nth"} <= numbers
    assert numbers - LIMITS.keys() == set()
