"""Broker settings, with the names and defaults of Pulsar's `broker.conf`.

In Pulsar: `broker/ServiceConfiguration.java`.
"""

from dataclasses import dataclass

from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.model.settings import InvalidSettingException, check_ranges, setting
from labkit.system.topic.config import PULSAR_DEFAULTS, ManagedLedgerConfig

_MAX_PARTITIONS = 10_000
"""Clients open a producer or consumer per partition. Pulsar has no limit by default."""
_METADATA_SIZE = 10 * 1024
"""Bytes reserved for metadata, because clients compare only the payload with the maximum size."""
_MAX_MESSAGE_SIZE = MAX_PAYLOAD_SIZE - _METADATA_SIZE


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Broker settings. Each value is checked against its valid range.

    If `default_num_partitions` is above 0, a missing topic is created with that many partitions.
    If `max_num_partitions_per_partitioned_topic` is 0, the maximum is 10,000.

    A dispatcher retries a failed read with exponential backoff, starting at
    `dispatcher_read_failure_backoff_initial_ms`. If `cluster_name` is empty, the metadata store
    must contain at most one cluster, and the broker joins that cluster. If
    `ttl_duration_default_s` is 0, messages do not expire.

    Raises `BKIncorrectParameterException` if a value is out of range.
    """

    cluster_name: str = setting("", "clusterName")

    # A message of this size, with its metadata, must fit into an entry.
    max_message_size: int = setting(
        _MAX_MESSAGE_SIZE, "maxMessageSize", at_least=1, at_most=_MAX_MESSAGE_SIZE
    )
    keep_alive_interval_s: float = setting(30.0, "keepAliveIntervalSeconds", at_least=0.001)
    authentication_refresh_check_s: float = setting(
        60.0, "authenticationRefreshCheckSeconds", at_least=0.001
    )
    allow_auto_topic_creation: bool = setting(True, "allowAutoTopicCreation")
    default_num_partitions: int = setting(
        0, "defaultNumPartitions", at_least=0, at_most=_MAX_PARTITIONS
    )
    max_num_partitions_per_partitioned_topic: int = setting(
        0, "maxNumPartitionsPerPartitionedTopic", at_least=0, at_most=_MAX_PARTITIONS
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
        max_ms = self.dispatcher_read_failure_backoff_max_ms
        if self.dispatcher_read_failure_backoff_initial_ms > max_ms:
            raise InvalidSettingException(
                self,
                "{dispatcher_read_failure_backoff_initial_ms} and"
                " {dispatcher_read_failure_backoff_max_ms}; the first must not exceed the second",
            )

    @property
    def max_partitions(self) -> int:
        return self.max_num_partitions_per_partitioned_topic or _MAX_PARTITIONS

    @property
    def max_entry_size(self) -> int:
        """The maximum size of a message in bytes, including its metadata."""
        return self.max_message_size + _METADATA_SIZE
