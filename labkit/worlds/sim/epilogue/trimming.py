"""Records which ledgers the topics trim.

Brokers report no event when they trim a ledger, and they may die before they delete it. A ledger
therefore counts as trimmed as soon as the shortened ledger list has been stored.
"""

from collections.abc import Sequence

from labkit.system.topic.chain.formats import decode_chain
from labkit.system.topic.config import UNLIMITED
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.system.trace.answers import Trimmed
from labkit.worlds.sim.nodes.results import ResultRecorder
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish


class TrimmedLedgers:
    """Watches the ledger lists of the scenario's topics if brokers can trim those lists."""

    def __init__(self, scenario: Scenario, results: ResultRecorder) -> None:
        config = scenario.cluster.broker.managed_ledger
        steps = (step for step in scenario.workload if isinstance(step, Publish | Consume))
        topics = dict.fromkeys(full_name(step.topic) for step in steps)
        if config.retention_time_ms == config.retention_size_bytes == UNLIMITED:
            topics.clear()
        self._topics = {managed_ledger_path(topic): topic for topic in topics}
        self._ledgers: dict[str, Sequence[int]] = {}
        self._results = results

    def stored(self, path: str, data: bytes) -> None:
        if path not in self._topics:
            return
        before, now = self._ledgers.get(path, []), [each.ledger_id for each in decode_chain(data)]
        self._ledgers[path] = now
        trimmed = before[: max(0, len(before) - len(now))]
        # Any other change means that a ledger was created or lost, not that the list was trimmed.
        if trimmed and before[len(trimmed) :] == now:
            self._results.record(Trimmed, self._topics[path], tuple(trimmed))
