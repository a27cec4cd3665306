"""The servers of a simulated run and their settings, as an immutable object."""

from dataclasses import dataclass

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.broker.config import BrokerConfig
from labkit.system.storage.config import StorageConfig
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.worlds.sim.settings.bookie_script import CONFIG
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.value_rules import check_fields

BROKER = BrokerConfig(
    broker_deduplication_enabled=True, managed_ledger=ManagedLedgerConfig(max_entries_per_ledger=5)
)


@dataclass(frozen=True, slots=True, repr=False)
class Cluster(Value):
    """The servers of a simulated run, and their settings.

    Bookies are named b0, b1, ... and brokers broker0, broker1, ... If `autorecovery` is set, each
    bookie also runs autorecovery. Each bookie has `journal_directories` directories for journals
    and `ledger_directories` directories for ledgers, on disks that fail together with the bookie's
    machine. A bookie's major compactions are at least `major_compaction_interval_s` seconds apart.
    """

    bookies: int = 3
    storage: StorageConfig = CONFIG
    flush_interval_ms: int = 100
    gc_wait_time_ms: int = 1000
    session_timeout_ms: int = 4000
    autorecovery: AutoRecoveryConfig | None = None
    brokers: int = 0
    broker: BrokerConfig = BROKER
    gc_overreplicated_ledger_wait_time_ms: int = 86_400_000
    ledger_directories: int = 1
    major_compaction_interval_s: float = 86_400
    journal_directories: int = 1

    def __post_init__(self) -> None:
        check_fields(self)
        self.garbage  # noqa: B018 - it validates its intervals

    @property
    def garbage(self) -> GarbageConfig:
        return GarbageConfig(
            gc_wait_time_ms=self.gc_wait_time_ms,
            gc_overreplicated_ledger_wait_time_ms=self.gc_overreplicated_ledger_wait_time_ms,
            major_compaction_interval_s=self.major_compaction_interval_s,
        )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"b{number}" for number in range(self.bookies))

    @property
    def broker_names(self) -> tuple[str, ...]:
        return tuple(f"broker{number}" for number in range(self.brokers))
