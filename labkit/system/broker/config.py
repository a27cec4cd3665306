"""How a broker serves: names and defaults are those of Pulsar's `broker.conf`.

In Pulsar: `broker/ServiceConfiguration.java`.
"""

from dataclasses import dataclass

from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.config import PULSAR_DEFAULTS, ManagedLedgerConfig

_MOST_PARTITIONS = 10_000
"""A client opens a producer or consumer for each partition.  Pulsar has no limit by default."""
_METADATA_SIZE = 10 * 1024
"""Room for metadata: a client compares only the payload with the largest size."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """How a broker serves; names and defaults are those of Pulsar's `broker.conf`.

    With `default_num_partitions` above 0 a missing topic that a client wants is created with that
    many partitions; `max_num_partitions_per_partitioned_topic` 0 stands for 10,000, the maximum.
    When an entry for consumers cannot be read, the read is repeated after pauses that double,
    starting at `dispatcher_read_failure_backoff_initial_ms`.  `cluster_name` "" stands for the only
    cluster in the metadata store; `ttl_duration_default_s` 0: messages do not expire.  Raises
    `BKIncorrectParameterException` for a value out of its range.
    """

    cluster_name: str = ""

    max_message_size: int = MAX_PAYLOAD_SIZE - _METADATA_SIZE
    keep_alive_interval_s: float = 30.0
    authentication_refresh_check_s: float = 60.0
    allow_auto_topic_creation: bool = True
    default_num_partitions: int = 0
    max_num_partitions_per_partitioned_topic: int = 0
    broker_deduplication_enabled: bool = False
    dispatcher_read_failure_backoff_initial_ms: int = 15_000
    dispatcher_read_failure_backoff_max_ms: int = 60_000
    ttl_duration_default_s: int = 0
    message_expiry_check_interval_s: float = 300.0
    managed_ledger: ManagedLedgerConfig = PULSAR_DEFAULTS

    def __post_init__(self) -> None:
        largest = MAX_PAYLOAD_SIZE - _METADATA_SIZE
        if not 1 <= self.max_message_size <= largest:
            raise BKIncorrectParameterException(
                f"max_message_size is {self.max_message_size}; allowed are 1 to {largest}, which"
                " fits into an entry"
            )
        for name in (
            "authentication_refresh_check_s",
            "keep_alive_interval_s",
            "message_expiry_check_interval_s",
        ):
            if getattr(self, name) <= 0:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; allowed are values above 0"
                )
        if self.ttl_duration_default_s < 0:
            raise BKIncorrectParameterException(
                f"ttl_duration_default_s is {self.ttl_duration_default_s}; allowed are 0, for no"
                " expiry, and above"
            )
        for name in ("default_num_partitions", "max_num_partitions_per_partitioned_topic"):
            if not 0 <= getattr(self, name) <= _MOST_PARTITIONS:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; allowed are 0 to {_MOST_PARTITIONS}"
                )
        first_ms = self.dispatcher_read_failure_backoff_initial_ms
        longest_ms = self.dispatcher_read_failure_backoff_max_ms
        if not 1 <= first_ms <= longest_ms:
            raise BKIncorrectParameterException(
                f"dispatcher_read_failure_backoff_initial_ms is {first_ms} and"
                f" dispatcher_read_failure_backoff_max_ms {longest_ms}; allowed are 1 and above,"
                " and the first not above the second"
            )

    @property
    def most_partitions(self) -> int:
        """The largest number of partitions of one topic."""
        return self.max_num_partitions_per_partitioned_topic or _MOST_PARTITIONS

    @property
    def max_entry_size(self) -> int:
        """The largest size of a message with its metadata, in bytes."""
        return self.max_message_size + _METADATA_SIZE
