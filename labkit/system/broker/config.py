"""How a broker serves: names and defaults are those of Pulsar's `broker.conf`.

In Pulsar: `broker/ServiceConfiguration.java`.
"""

from dataclasses import dataclass

from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.settings import InvalidSettingException, check_ranges, setting
from labkit.system.topic.config import PULSAR_DEFAULTS, ManagedLedgerConfig

_MOST_PARTITIONS = 10_000
"""A client opens a producer or consumer for each partition.  Pulsar has no limit by default."""
_METADATA_SIZE = 10 * 1024
"""Room for metadata: a client compares only the payload with the largest size."""
_LARGEST_MESSAGE = MAX_PAYLOAD_SIZE - _METADATA_SIZE


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

    cluster_name: str = setting("", "clusterName")

    # The largest size fits, with metadata, into an entry.
    max_message_size: int = setting(
        _LARGEST_MESSAGE, "maxMessageSize", at_least=1, at_most=_LARGEST_MESSAGE
    )
    keep_alive_interval_s: float = setting(30.0, "keepAliveIntervalSeconds", at_least=0.001)
    authentication_refresh_check_s: float = setting(
        60.0, "authenticationRefreshCheckSeconds", at_least=0.001
    )
    allow_auto_topic_creation: bool = setting(True, "allowAutoTopicCreation")
    default_num_partitions: int = setting(
        0, "defaultNumPartitions", at_least=0, at_most=_MOST_PARTITIONS
    )
    max_num_partitions_per_partitioned_topic: int = setting(
        0, "maxNumPartitionsPerPartitionedTopic", at_least=0, at_most=_MOST_PARTITIONS
    )
    broker_deduplication_enabled: bool = setting(False, "brokerDeduplicationEnabled")
    dispatcher_read_failure_backoff_initial_ms: int = setting(
        15_000, "dispatcherReadFailureBackoffInitialTimeInMs", at_least=1
    )
    dispatcher_read_failure_backoff_max_ms: int = setting(
        60_000, "dispatcherReadFailureBackoffMaxTimeInMs"
    )
    ttl_duration_default_s: int = setting(0, "ttlDurationDefaultInSeconds", at_least=0)
    message_expiry_check_interval_s: float = setting(
        300.0, "messageExpiryCheckIntervalInMinutes", unit=60, at_least=0.001
    )
    managed_ledger: ManagedLedgerConfig = PULSAR_DEFAULTS

    def __post_init__(self) -> None:
        check_ranges(self)
        longest_ms = self.dispatcher_read_failure_backoff_max_ms
        if self.dispatcher_read_failure_backoff_initial_ms > longest_ms:
            raise InvalidSettingException(
                self,
                "{dispatcher_read_failure_backoff_initial_ms} and"
                " {dispatcher_read_failure_backoff_max_ms}; the first must not be above the second",
            )

    @property
    def most_partitions(self) -> int:
        """The largest number of partitions of one topic."""
        return self.max_num_partitions_per_partitioned_topic or _MOST_PARTITIONS

    @property
    def max_entry_size(self) -> int:
        """The largest size of a message with its metadata, in bytes."""
        return self.max_message_size + _METADATA_SIZE
