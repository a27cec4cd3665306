"""Test autorecovery with scripts: conversations with a small cluster in virtual time."""

from pathlib import Path

import pytest

from tests.scripts import Scenario, scenarios_of
from tests.system.autorecovery.commands import AutoRecoveryCommands
from tests.system.autorecovery.world import World, run

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
SCENARIOS = [each for path in SCRIPTS for each in scenarios_of(path)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: f"{each.path.stem}-{each.name}")
def test_script(scenario: Scenario, request: pytest.FixtureRequest) -> None:
    async def play(world: World) -> None:
        lines = await scenario.played(AutoRecoveryCommands(world))
        if request.config.getoption("record"):
            scenario.record(lines)
        else:
            assert lines == scenario.lines

    run(play)
