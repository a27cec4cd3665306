"""Exclusive: one consumer; a second one is refused.

In Pulsar: `AbstractDispatcherSingleActiveConsumer.addConsumer`.
"""

from collections.abc import Sequence

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import ServerError


class Exclusive:
    """Chooses the only consumer."""

    announces = False

    def admit(self, consumer: Consumer, connected: Sequence[Consumer]) -> None:
        """Raises `BrokerError` while another is connected."""
        if connected:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"consumer {consumer.name!r} is refused: the exclusive subscription has the"
                f" consumer {connected[0].name!r}; close that one, or subscribe as Failover, Shared"
                " or Key_Shared",
            )

    def active(self, connected: Sequence[Consumer]) -> Consumer:
        """The consumer that gets the entries."""
        return connected[0]
