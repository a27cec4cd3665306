"""Test the verdicts on hand-written runs.

For each check, there are runs that keep the promise, runs that break it, and runs that do not show
whether it was kept.
"""

import pytest

from tests.scripts import Scenario
from tests.system.check.commands import SCENARIOS, StoryCommands


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.path.stem}-{each.name}")
async def test_script(scenario: Scenario, request: pytest.FixtureRequest) -> None:
    lines = await scenario.played(StoryCommands())
    if request.config.getoption("record"):
        scenario.record(lines)
    else:
        assert lines == scenario.lines
