"""The whole broker: accepts client connections, and runs the periodic tasks.

In Pulsar: `broker/PulsarService.java`.
"""

import asyncio
from functools import partial
from itertools import groupby
from typing import NoReturn

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.expiry import expire_messages
from labkit.system.broker.handlers.consumers import Consumers
from labkit.system.broker.handlers.lookup import LOOKUP_HANDLERS
from labkit.system.broker.handlers.producers import Producers
from labkit.system.broker.handlers.schema_requests import SCHEMA_HANDLERS
from labkit.system.broker.namespaces import NAMESPACE_HANDLERS
from labkit.system.broker.policies import read_topic_policies
from labkit.system.broker.protocol.connection import ClientConnection, ServerHandlers
from labkit.system.broker.protocol.unsupported import UNSUPPORTED_HANDLERS
from labkit.system.model.errors import LabkitError
from labkit.system.model.net import Connection as Wire
from labkit.system.model.net import OnBodies
from labkit.system.topic.names import namespace_of

_POLICIES_INTERVAL_S = 5.0
_HANDLERS: ServerHandlers = {
    **LOOKUP_HANDLERS,
    **NAMESPACE_HANDLERS,
    **SCHEMA_HANDLERS,
    **UNSUPPORTED_HANDLERS,
}
"""Handlers of commands that do not belong to a producer or consumer."""


class Broker(BrokerService):
    def accept(self, wire: Wire) -> OnBodies:
        """Serve a new client connection. Return the callback that receives its frames."""
        connection = ClientConnection(wire, self)
        connection.register_handlers(
            {kind: partial(handler, self, connection) for kind, handler in _HANDLERS.items()}
        )
        Producers(self, connection)
        Consumers(self, connection)
        self.connections[connection] = None
        connection.when_closed(partial(self.connections.pop, connection))
        return connection.on_bodies

    async def run(self) -> None:
        tasks = [self._keep_alive(), self.reload_policies(), expire_messages(self)]
        if self.authenticate is not None:
            tasks.append(self._check_credentials())
        await asyncio.gather(*tasks)

    async def _keep_alive(self) -> NoReturn:
        loop = asyncio.get_running_loop()
        while True:
            begun_at = loop.time()
            await asyncio.sleep(self.config.keep_alive_interval_s)
            for connection in list(self.connections):
                connection.keep_alive()
            for topic in self.topics:
                topic.update_rates(loop.time() - begun_at)

    async def reload_policies(self) -> NoReturn:
        while True:
            await asyncio.sleep(_POLICIES_INTERVAL_S)
            for namespace, topics in groupby(self.topics, lambda topic: namespace_of(topic.name)):
                try:
                    policies = await read_topic_policies(self.store, namespace, self.config)
                except LabkitError:
                    continue  # The store did not respond, or the policies cannot be decoded.
                for topic in topics:
                    topic.apply(policies)

    async def _check_credentials(self) -> NoReturn:
        while True:
            await asyncio.sleep(self.config.authentication_refresh_check_s)
            for connection in list(self.connections):
                connection.check_credentials(self.client.wall_clock_ms())

    async def stop(self) -> None:
        await self.close()
        for connection in list(self.connections):
            connection.close()
