"""Ledgers that topics give up, noted when the chain without them is stored: a broker reports no
event of that, and may die before it deletes them.
"""

from collections.abc import Sequence

from labkit.system.topic.chain.formats import decode_chain
from labkit.system.topic.config import UNLIMITED
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.sim.nodes.results import ClientAnswers
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.publish import Publish


class TrimmedLedgers:
    """Watches the chains of the scenario's topics, if brokers may trim them."""

    def __init__(self, scenario: Scenario, answers: ClientAnswers) -> None:
        config = scenario.cluster.broker.managed_ledger
        steps = (step for step in scenario.workload if isinstance(step, Publish | Consume))
        topics = dict.fromkeys(full_name(step.topic) for step in steps)
        if config.retention_time_ms == config.retention_size_bytes == UNLIMITED:
            topics.clear()
        self._topics = {managed_ledger_path(topic): topic for topic in topics}
        self._chains: dict[str, Sequence[int]] = {}
        self._answers = answers

    def stored(self, path: str, data: bytes) -> None:
        """A node of the metadata store has this data now."""
        if path not in self._topics:
            return
        before, now = self._chains.get(path, []), [each.ledger_id for each in decode_chain(data)]
        self._chains[path] = now
        gone = before[: max(0, len(before) - len(now))]
        # Any other change is not a trim, but a ledger that was begun, or lost.
        if gone and before[len(gone) :] == now:
            self._answers.trimmed(self._topics[path], gone)
