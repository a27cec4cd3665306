"""Draws random values, nodes and events for a scenario from a seed."""

import random
from typing import TypeVar

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, Moment, On

T = TypeVar("T")

_EVENTS = {
    "add.sent": 60,
    "journal.appended": 60,
    "journal.synced": 60,
    "add.acked": 60,
    "lac.advanced": 20,
    "memtable.flushed": 12,
    "ensemble.changing": 3,
    "recovery.started": 2,
    "ledger.fenced": 5,
    "recovery.covered": 2,
    "recovery.ended": 2,
    "ledger.closed": 2,
    "node.killed": 3,
}
"""Kinds of events that change a state, with the approximate number of such events in a small
scenario.
"""


class ScenarioRandom:
    """Draws values for a scenario with the given cluster and clients, and with times up to
    `horizon_ms`.

    Each `stream` of a seed is independent of the others.
    """

    def __init__(
        self, stream: str, seed: int, cluster: Cluster, clients: tuple[str, ...], horizon_ms: float
    ) -> None:
        self._random = random.Random(f"{stream} {seed}")
        self._seed, self._cluster = seed, cluster
        self._bookies, self._clients = cluster.names, clients
        self.horizon_ms = horizon_ms

    def other_stream(self, stream: str) -> "ScenarioRandom":
        return ScenarioRandom(stream, self._seed, self._cluster, self._clients, self.horizon_ms)

    def chance(self, share: float) -> bool:
        return self._random.random() < share

    def one_of(self, *values: T) -> T:
        return self._random.choice(values)

    def some_of(self, values: tuple[T, ...], count: int) -> list[T]:
        return self._random.sample(values, count)

    def number(self, lowest: int, highest: int) -> int:
        """Return an integer from this range, including both ends."""
        return self._random.randint(lowest, highest)

    def between(self, lowest: float, highest: float) -> float:
        """Return a random number from this range with at most three significant digits, for
        readability.
        """
        return rounded(self._random.uniform(lowest, highest))

    def uniform(self, lowest: float, highest: float) -> float:
        return self._random.uniform(lowest, highest)

    def ms(self, most: float = 0) -> float:
        """Return a log-uniformly distributed time from 1 ms to `most` (default: the horizon)."""
        return rounded((most or self.horizon_ms) ** self._random.random())

    def bookie(self) -> str:
        return self._random.choice(self._bookies)

    def first_bookie(self) -> str:
        """Return a bookie that usually has copies, because clients choose bookies in the order of
        their names.
        """
        return self._random.choice(self._bookies[:3])

    def client(self) -> str:
        return self._random.choice(self._clients)

    def node(self) -> str:
        return self._random.choice((*self._bookies, *self._clients))

    def autorecovery(self, *lost_bookie_delays_s: int) -> AutoRecoveryConfig:
        """Return a configuration that makes autorecovery react within seconds."""
        return AutoRecoveryConfig(
            auditor_periodic_check_interval_s=self.one_of(0, 2),
            lost_bookie_recovery_delay_s=self.one_of(*lost_bookie_delays_s),
            open_ledger_rereplication_grace_period_ms=self.one_of(200, 2000),
            rw_rereplicate_backoff_ms=200,
            lock_release_of_failed_ledger_grace_period_ms=2000,
        )

    def link(self) -> tuple[str, str]:
        """Return the sender and the receiver of a link, usually a bookie and a client."""
        ends = [self.bookie(), self.client()]
        if self.chance(0.2):
            ends = self.some_of((*self._bookies, *self._clients), 2)
        source, target = self.some_of(tuple(ends), 2)
        return source, target

    def unsynced(self) -> str:
        return self.one_of("kept", "lost", "torn", "lot")

    def position_in_file(self) -> float:
        """Return a relative position in a file (0 to 1), usually near the end, where the newest
        data is.
        """
        return rounded(1 - self._random.random() ** 3)

    def time(self) -> At:
        return At(self.between(0, self.horizon_ms))

    def event(self, *kinds: str) -> On:
        """Return a trigger for an event of one of these kinds (default: any kind)."""
        kind = self.one_of(*(kinds or _EVENTS))
        return On(kind, int(_EVENTS[kind] ** self._random.random()))

    def moment(self) -> Moment:
        return self.time() if self.chance(0.4) else self.event()


def rounded(value: float) -> float:
    return float(f"{value:.3g}")
