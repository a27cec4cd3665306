"""Runs the learner's program in a simulated cluster, before step 7 runs it as a process."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import cast

from labkit.course.workshop.client.adapter import LearnersClient
from labkit.course.workshop.client.runs import quiet
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.faults import Crash, Pause
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, At, Moment, On
from labkit.worlds.sim.workload.steps import payload


@dataclass(frozen=True, slots=True, repr=False)
class Append(Value):
    """A step in which the program creates a ledger, adds entries and closes the ledger."""

    entries: int = 12
    window: int = 4
    client: str = "w"
    when: Moment = START

    def __str__(self) -> str:
        return f"append {self.entries} entries, {self.window} at a time"

    async def run(self, node: ClientNode) -> None:
        program = cast("LearnersClient", node.client).program()
        await program.write(
            (3, 3, 2),
            self._payloads(),
            self.window,
            lambda ledger_id: node.ledgers.created(0, ledger_id),
            lambda _: None,
        )

    async def _payloads(self) -> AsyncIterator[bytes]:
        for number in range(self.entries):
            yield payload(0, number, 32)


@dataclass(frozen=True, slots=True, repr=False)
class TakeOver(Value):
    client: str = "r"
    when: Moment = START

    def __str__(self) -> str:
        return "take ledger 0 over"

    async def run(self, node: ClientNode) -> None:
        program = cast("LearnersClient", node.client).program()
        await program.take_over(await node.ledgers.id_of(0))


APPENDS = quiet(Append(), bookies=4)
TAKES_OVER = quiet(Append(), TakeOver(when=At(60.0)), bookies=4)
LOSES_A_BOOKIE = quiet(Append(), bookies=4, faults=(Crash("b1", when=On("lac.advanced", 3)),))
TOO_FEW_BOOKIES = quiet(Append(), bookies=2)
IS_TAKEN = quiet(
    Append(40),
    TakeOver(when=On("lac.advanced", 10)),
    bookies=4,
    faults=(Pause("w", 40.0, On("lac.advanced", 10)),),
)
"""The writer is paused with adds in flight, and resumes after its ledger has been taken over."""
