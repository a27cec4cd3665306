"""A reader that follows a writer, and measurements of how long each entry takes to reach the reader
(lesson 06).
"""

from dataclasses import dataclass
from functools import partial

from labkit.course.runs.cluster_trial import failures, run_with
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.model.errors import BKReadException
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write


@dataclass(frozen=True, slots=True, repr=False)
class Tail(Value):
    """Read the first entries of a ledger, each entry as soon as it is confirmed."""

    ledger: int = 0
    entries: int = 5
    timeout_s: float = 1.0
    client: str = "r"
    when: Moment = START

    def __str__(self) -> str:
        return f"tail ledger {self.ledger}"

    async def run(self, node: ClientNode) -> None:
        """Raises `LabkitError` if the ledger cannot be opened or an entry does not arrive."""
        ledger_id = await node.ledgers.id_of(self.ledger)
        reader = await node.client.open_ledger_no_recovery(ledger_id)
        for entry_id in range(self.entries):
            _, entry = await reader.read_last_add_confirmed_and_entry(entry_id, self.timeout_s)
            if entry is None:
                raise BKReadException(f"entry {entry_id} was not confirmed within the timeout")


def read_delays_ms(trace: Trace) -> dict[int, float]:
    """For each entry that the reader, r, has read, return the time between the moment when the
    writer, w, pushed the entry and the moment when it was read.

    Events of other nodes are ignored, because the epilogue pushes entries again when it recovers
    the ledger after the run.
    """
    pushed = {e.entry: e.time_us for e in trace.events if (e.node, e.kind) == ("w", "add.pushed")}
    return {
        e.entry: (e.time_us - pushed[e.entry]) / 1000
        for e in trace.events
        if (e.node, e.kind) == ("r", "read.done") and e.entry in pushed
    }


def tailing_delays(write: Write, explicit_lac_interval_ms: int) -> str:
    """Follow a writer, and return a line for each entry with the delay between pushing and reading
    the entry.

    An interval of 0 disables explicit LACs. The result also contains a line for each failed step.
    """
    config = ClientConfig(explicit_lac_interval_ms=explicit_lac_interval_ms)
    scenario = Scenario(Cluster(3), (write, Tail(0, write.entries)))
    followed = run_with(scenario, client=partial(BookKeeper, config=config))
    delays = (
        f"entry {entry_id} was read {delay_ms:5.1f} ms after it was pushed"
        for entry_id, delay_ms in read_delays_ms(followed).items()
    )
    return "\n".join(f"   {line}" for line in (*delays, *failures(followed)))
