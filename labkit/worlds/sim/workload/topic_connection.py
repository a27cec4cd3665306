"""A Pulsar client's connection to the broker that owns its topic, in the simulated world."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from labkit.system.broker.protocol.frames import decode_frame, encode_frame
from labkit.system.model.errors import LabkitError
from labkit.system.model.net import Connection
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPong,
)
from labkit.worlds.sim.nodes.broker_node import BROKER_PORT
from labkit.worlds.sim.nodes.nodes import ClientNode

_PROTOCOL_VERSION = 20
_RESPONSE_TIMEOUT_S = 2.0
_MAX_REDIRECTS = 20
_NOT_RESPONSES = (
    BaseCommand.SEND_RECEIPT,
    BaseCommand.SEND_ERROR,
    BaseCommand.MESSAGE,
    BaseCommand.ACTIVE_CONSUMER_CHANGE,
    BaseCommand.CLOSE_PRODUCER,
    BaseCommand.CLOSE_CONSUMER,
)
"""Commands that a broker sends without being asked, or that do not contain the id of a request."""

OnCommand = Callable[[BaseCommand, bytes], None]
"""Receives a command from the broker, and the message that follows the command."""


class RetryLookupError(LabkitError):
    """The lookup must be repeated: the broker does not own the topic, or a request failed."""


class TopicConnection:
    """The successive connections to the brokers that own the topic.

    `on_command` receives all commands that are not responses. `on_gone` is called when the
    connection has become unusable.
    """

    def __init__(
        self,
        node: ClientNode,
        topic: str,
        on_command: OnCommand,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        self.gone = asyncio.Event()
        """Set when the current connection becomes unusable. Each connection gets a new event."""
        self.host = ""
        """The broker at the other end."""
        self._node = node
        self._topic = topic
        self._on_command = on_command
        self._on_gone = on_gone
        self._wire: Connection | None = None
        self._request_ids = count(1)
        self._pending: dict[int, asyncio.Future[BaseCommand]] = {}

    async def open(self, attempt: int) -> None:
        """Look up the topic, starting at another broker in each attempt, and connect to its owner.

        Raises `RetryLookupError`, `OSError` or `TimeoutError`.
        """
        brokers = self._node.world.cluster.broker_names
        host, authoritative = brokers[attempt % len(brokers)], False
        for _ in range(_MAX_REDIRECTS):
            await self._connect(host)
            response = await self._look_up(authoritative)
            owner = response.brokerServiceUrl.removeprefix("pulsar://").partition(":")[0]
            if response.response == CommandLookupTopicResponse.Failed:
                raise RetryLookupError(response.message)
            if owner == host:
                return
            self.hang_up()
            host, authoritative = owner, response.authoritative
        raise RetryLookupError(f"gave up on the lookup after {_MAX_REDIRECTS} redirects")

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    async def ask(self, command: BaseCommand) -> BaseCommand:
        """Send a request with the next request id, and return the response. Raises
        `RetryLookupError` or `TimeoutError`.
        """
        request_id = next(self._request_ids)
        for field, request in command.ListFields():
            if field.message_type is not None:
                request.request_id = request_id
        return await self._ask(request_id, command)

    async def _ask(self, request_id: int, command: BaseCommand) -> BaseCommand:
        response_future: asyncio.Future[BaseCommand] = asyncio.get_running_loop().create_future()
        self._pending[request_id] = response_future
        self.send(command)
        async with asyncio.timeout(_RESPONSE_TIMEOUT_S):
            response = await response_future
        if response.type == BaseCommand.ERROR:
            raise RetryLookupError(response.error.message)
        return response

    def send(self, command: BaseCommand, message: bytes = b"") -> None:
        if self._wire is not None:
            self._wire.send([encode_frame(command, message)])

    async def _connect(self, host: str) -> None:
        gone = self.gone = asyncio.Event()
        on_bodies = partial(self._on_bodies, gone)
        on_close = partial(self._on_closed, gone)
        self._wire = await self._node.network.connect(host, BROKER_PORT, on_bodies, on_close)
        self.host = host
        connect = CommandConnect(client_version="sim", protocol_version=_PROTOCOL_VERSION)
        await self._ask(0, BaseCommand(type=BaseCommand.CONNECT, connect=connect))

    async def _look_up(self, authoritative: bool) -> CommandLookupTopicResponse:
        request = CommandLookupTopic(topic=self._topic, authoritative=authoritative)
        command = BaseCommand(type=BaseCommand.LOOKUP, lookupTopic=request)
        return (await self.ask(command)).lookupTopicResponse

    def _on_closed(self, gone: asyncio.Event) -> None:
        gone.set()
        if gone is self.gone:
            self._on_gone()

    def _on_bodies(self, gone: asyncio.Event, bodies: Sequence[bytes]) -> None:
        # Ignore commands from a connection that has been abandoned in the meantime.
        for body in bodies if gone is self.gone else ():
            command, message = decode_frame(body)
            if command.type == BaseCommand.PING:
                self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
            elif command.type in _NOT_RESPONSES:
                self._on_command(command, message)
            else:
                self._on_response(command)

    def _on_response(self, command: BaseCommand) -> None:
        request_id = 0
        for _, body in command.ListFields():
            request_id = getattr(body, "request_id", request_id)
        response_future = self._pending.pop(request_id, None)
        if response_future is not None and not response_future.done():
            response_future.set_result(command)
