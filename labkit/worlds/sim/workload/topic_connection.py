"""A Pulsar client's connection to the broker that serves its topic, in the simulated world."""

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
_ANSWER_TIMEOUT_S = 2.0
_MOST_HOPS = 20
_UNASKED = (
    BaseCommand.SEND_RECEIPT,
    BaseCommand.SEND_ERROR,
    BaseCommand.MESSAGE,
    BaseCommand.ACTIVE_CONSUMER_CHANGE,
    BaseCommand.CLOSE_PRODUCER,
    BaseCommand.CLOSE_CONSUMER,
)
"""Commands that a broker sends without a request, or by another number than the request's."""

OnCommand = Callable[[BaseCommand, bytes], None]
"""Takes a command of the broker, and the message after it."""


class LookAgainError(LabkitError):
    """The topic is not served where the client asked."""


class TopicConnection:
    """One connection after the other, each to the broker that serves the topic by then.

    `on_command` gets the commands that answer no request, and `on_gone` is called when the
    connection can no longer be used.
    """

    def __init__(
        self,
        node: ClientNode,
        topic: str,
        on_command: OnCommand,
        on_gone: Callable[[], None] = lambda: None,
    ) -> None:
        self.gone = asyncio.Event()
        """Set when the connection can no longer be used; each connection has another one."""
        self.host = ""
        """The broker at its other end."""
        self._node = node
        self._topic = topic
        self._on_command = on_command
        self._on_gone = on_gone
        self._wire: Connection | None = None
        self._request_ids = count(1)
        self._asked: dict[int, asyncio.Future[BaseCommand]] = {}

    async def open(self, attempt: int) -> None:
        """Look the topic up, at another broker in each attempt, and stay with its owner.

        Raises `LookAgainError`, `OSError` and `TimeoutError`.
        """
        brokers = self._node.world.cluster.broker_names
        host, authoritative = brokers[attempt % len(brokers)], False
        for _ in range(_MOST_HOPS):
            await self._connect(host)
            answer = await self._look_up(authoritative)
            found = answer.brokerServiceUrl.removeprefix("pulsar://").partition(":")[0]
            if answer.response == CommandLookupTopicResponse.Failed:
                raise LookAgainError(answer.message)
            if found == host:
                return
            self.hang_up()
            host, authoritative = found, answer.authoritative
        raise LookAgainError(f"{_MOST_HOPS} brokers named another one")

    def hang_up(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None

    def next_request_id(self) -> int:
        """A number that no request of this client has."""
        return next(self._request_ids)

    async def ask(self, request_id: int, command: BaseCommand) -> BaseCommand:
        """Send a request and return the answer.  Raises `LookAgainError`, `TimeoutError`."""
        answered: asyncio.Future[BaseCommand] = asyncio.get_running_loop().create_future()
        self._asked[request_id] = answered
        self.send(command)
        async with asyncio.timeout(_ANSWER_TIMEOUT_S):
            answer = await answered
        if answer.type == BaseCommand.ERROR:
            raise LookAgainError(answer.error.message)
        return answer

    def send(self, command: BaseCommand, message: bytes = b"") -> None:
        if self._wire is not None:
            self._wire.send([encode_frame(command, message)])

    async def _connect(self, host: str) -> None:
        gone = self.gone = asyncio.Event()
        on_bodies = partial(self._received, gone)
        on_close = partial(self._closed, gone)
        self._wire = await self._node.network.connect(host, BROKER_PORT, on_bodies, on_close)
        self.host = host
        connect = CommandConnect(client_version="sim", protocol_version=_PROTOCOL_VERSION)
        await self.ask(0, BaseCommand(type=BaseCommand.CONNECT, connect=connect))

    async def _look_up(self, authoritative: bool) -> CommandLookupTopicResponse:
        request = CommandLookupTopic(
            topic=self._topic, request_id=self.next_request_id(), authoritative=authoritative
        )
        command = BaseCommand(type=BaseCommand.LOOKUP, lookupTopic=request)
        return (await self.ask(request.request_id, command)).lookupTopicResponse

    def _closed(self, gone: asyncio.Event) -> None:
        gone.set()
        if gone is self.gone:
            self._on_gone()

    def _received(self, gone: asyncio.Event, bodies: Sequence[bytes]) -> None:
        # A connection that was given up may still deliver: that answers no request.
        for body in bodies if gone is self.gone else ():
            command, message = decode_frame(body)
            if command.type == BaseCommand.PING:
                self.send(BaseCommand(type=BaseCommand.PONG, pong=CommandPong()))
            elif command.type in _UNASKED:
                self._on_command(command, message)
            else:
                self._answered(command)

    def _answered(self, command: BaseCommand) -> None:
        request_id = 0
        for _, body in command.ListFields():
            request_id = getattr(body, "request_id", request_id)
        answered = self._asked.pop(request_id, None)
        if answered is not None and not answered.done():
            answered.set_result(command)
