"""Run the broker's scripts: conversations in virtual time, with the commands of each kind."""

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from tests.scripts import Scenario, scenarios_of
from tests.system.broker.commands.clients import ClientCommands
from tests.system.broker.commands.dispatch import DispatchCommands
from tests.system.broker.commands.ownership import OwnershipCommands
from tests.system.broker.commands.subscriptions import SubscriptionCommands
from tests.virtual_time import in_virtual_time

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
COMMANDS = {
    "authentication": ClientCommands,
    "connections": ClientCommands,
    "dispatch_key_shared": DispatchCommands,
    "dispatch_shared": DispatchCommands,
    "dispatch_single_active": DispatchCommands,
    "ownership": OwnershipCommands,
    "producer_access": ClientCommands,
    "subscriptions": SubscriptionCommands,
}
SCENARIOS = [each for path in SCRIPTS for each in scenarios_of(path)]


def marked(scenario: Scenario) -> ParameterSet:
    """Mark a scenario with its promises, so that `-m promise` selects it."""
    lines = [line for line in scenario.lines if line.startswith("promise: ")]
    marks = [pytest.mark.promise(line.removeprefix("promise: ")) for line in lines]
    return pytest.param(scenario, marks=marks, id=f"{scenario.path.stem}-{scenario.name}")


@pytest.mark.parametrize("scenario", [marked(each) for each in SCENARIOS])
@in_virtual_time
async def test_script(scenario: Scenario, request: pytest.FixtureRequest) -> None:
    lines = await scenario.played(COMMANDS[scenario.path.stem]())
    if request.config.getoption("record"):
        scenario.record(lines)
    else:
        assert lines == scenario.lines
