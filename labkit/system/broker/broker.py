"""The whole broker: accepts client connections, and runs the periodic tasks.

In Pulsar: `broker/PulsarService.java`.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import NoReturn

from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.expiry import expire_messages
from labkit.system.broker.handlers.consumers import Consumers
from labkit.system.broker.handlers.lookup import register_lookup_handlers
from labkit.system.broker.handlers.producers import Producers
from labkit.system.broker.handlers.schema_requests import register_schema_handlers
from labkit.system.broker.namespaces import register_namespace_handlers
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.protocol.authentication import Authenticate
from labkit.system.broker.protocol.authorization import Authorization
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.refusals import register_refusals
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import LabkitError
from labkit.system.model.net import Connection as Wire
from labkit.system.model.net import OnBodies
from labkit.system.topic.names import namespace_of

_POLICIES_INTERVAL_S = 5.0


class Broker(BrokerService):
    def __init__(
        self,
        client: BookKeeper,
        address: BrokerAddress,
        config: BrokerConfig,
        authenticate: Authenticate | None = None,
        authorization: Authorization | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        super().__init__(client, address, config, authenticate, authorization, log)
        self._connections: dict[ClientConnection, None] = {}

    def accept(self, wire: Wire) -> OnBodies:
        """Serve a new client connection; return the callback that receives its frames."""
        connection = ClientConnection(wire, self)
        register_lookup_handlers(self, connection)
        register_namespace_handlers(self, connection)
        register_schema_handlers(self, connection)
        Producers(self, connection)
        Consumers(self, connection)
        register_refusals(connection)
        self._connections[connection] = None
        connection.when_closed(partial(self._connections.pop, connection))
        return connection.on_bodies

    @property
    def connections(self) -> list[ClientConnection]:
        return list(self._connections)

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
            for connection in self.connections:
                connection.keep_alive()
            for topic in self.topics:
                topic.update_rates(loop.time() - begun_at)

    async def reload_policies(self) -> NoReturn:
        while True:
            await asyncio.sleep(_POLICIES_INTERVAL_S)
            for namespace, topics in groupby(self.topics, lambda topic: namespace_of(topic.name)):
                try:
                    policies = await self.policies(namespace)
                except LabkitError:
                    continue  # The store did not respond, or the policies cannot be decoded.
                for topic in topics:
                    topic.apply(policies)

    async def _check_credentials(self) -> NoReturn:
        while True:
            await asyncio.sleep(self.config.authentication_refresh_check_s)
            for connection in self.connections:
                connection.check_credentials(self.client.wall_clock_ms())

    async def stop(self) -> None:
        await self.close()
        for connection in self.connections:
            connection.close()
