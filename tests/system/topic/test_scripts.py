"""Run the scripts of a topic in virtual time."""

from pathlib import Path

import pytest

from tests.scripts import Scenario, scenarios_of
from tests.system.topic.commands.cursor_writes import CursorWritesCommands
from tests.system.topic.commands.publishing import PublishingCommands
from tests.virtual_time import in_virtual_time

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
COMMANDS = {"cursor_writes": CursorWritesCommands, "publishing": PublishingCommands}
SCENARIOS = [each for path in SCRIPTS for each in scenarios_of(path)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.path.stem}-{each.name}")
@in_virtual_time
async def test_script(scenario: Scenario, request: pytest.FixtureRequest) -> None:
    lines = await scenario.played(COMMANDS[scenario.path.stem]())
    if request.config.getoption("record"):
        scenario.record(lines)
    else:
        assert lines == scenario.lines
