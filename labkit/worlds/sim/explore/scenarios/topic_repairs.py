"""Repairs in scenarios with brokers: a bookie is taken for lost while a topic's ledger is open, so
that a worker fences the broker that writes it.
"""

import random
from dataclasses import replace

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Step

_SHARE = 0.2
_FEW = 8


def with_repairs(scenario: Scenario, seed: int) -> Scenario:
    """The scenario, or, for one in five, one with autorecovery, a bookie more, and a bookie that
    goes for good or for seconds; half of these have slow producers.
    """
    lots = random.Random(f"repairs {seed}")
    if lots.random() >= _SHARE:
        return scenario
    config = AutoRecoveryConfig(
        auditor_periodic_check_interval_s=lots.choice((0, 2)),
        lost_bookie_recovery_delay_s=lots.choice((0, 0, 1)),
        open_ledger_rereplication_grace_period_ms=lots.choice((200, 2000)),
        rw_rereplicate_backoff_ms=200,
        lock_release_of_failed_ledger_grace_period_ms=2000,
    )
    cluster = replace(scenario.cluster, bookies=scenario.cluster.bookies + 1, autorecovery=config)
    gone = Crash(
        lots.choice(cluster.names[:3]),
        lots.choice(("kept", "lost")),
        lots.choice((0.0, 0.0, 3000.0)),
        At(float(lots.randrange(300))),
    )
    workload = scenario.workload
    if lots.random() < 0.5:
        every_ms = lots.choice((500.0, 1500.0))
        workload = tuple(_slowly(step, every_ms) for step in workload)
    return replace(scenario, cluster=cluster, workload=workload).with_fault(gone)


def _slowly(step: Step, every_ms: float) -> Step:
    """A producer that is slower than a repair: its broker does not notice that a bookie is gone,
    and replaces none before the worker comes.
    """
    if isinstance(step, Publish):
        return replace(step, messages=min(step.messages, _FEW), every_ms=every_ms)
    return step
