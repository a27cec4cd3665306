"""A client that sends raw Pulsar commands, including ones that the official client cannot send."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

from labkit.system.broker.protocol.frames import body_of, decode_frame
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandAck, CommandSubscribe
from labkit.system.topic.names import full_name
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import done
from tests.system.broker.held import frame

_LENGTH = struct.Struct(">I")
_TIMEOUT_S = 20.0


class RawClient:
    """A connection to the broker that serves a topic."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._request_id = 0

    def tell(self, kind: BaseCommand.Type, **fields: Any) -> None:
        body = frame(kind, **fields)
        self._writer.write(_LENGTH.pack(len(body)) + body)

    def ask(self, kind: BaseCommand.Type, **fields: Any) -> int:
        """Send a request and return its request id."""
        self._request_id += 1
        self.tell(kind, request_id=self._request_id, **fields)
        return self._request_id

    async def next(self) -> tuple[BaseCommand.Type, Any]:
        """Receive the next command and return its type and fields."""
        async with asyncio.timeout(_TIMEOUT_S):
            (size,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            command, _ = decode_frame(await self._reader.readexactly(size))
        return command.type, body_of(command)

    async def expect(self, kind: BaseCommand.Type) -> Any:
        """Receive the next command, check that it has this type and return its fields."""
        found, fields = await self.next()
        assert found == kind, fields
        return fields

    async def is_silent(self) -> bool:
        """Return whether the broker sends nothing before its response to a PING."""
        self.tell(BaseCommand.PING)
        found, _ = await self.next()
        return found == BaseCommand.PONG

    async def subscribe(
        self, topic: str, consumer_id: int = 1, kind: int = CommandSubscribe.Exclusive, **more: Any
    ) -> None:
        """Subscribe as `sub` from the first message on, and wait for the response."""
        self.ask(
            BaseCommand.SUBSCRIBE,
            topic=full_name(topic),
            subscription="sub",
            subType=kind,
            consumer_id=consumer_id,
            initialPosition=CommandSubscribe.Earliest,
            **more,
        )
        while (found := await self.next())[0] != BaseCommand.SUCCESS:
            assert found[0] == BaseCommand.ACTIVE_CONSUMER_CHANGE, found[1]

    def flow(self, permits: int = 100) -> None:
        """Give permits to consumer 1."""
        self.tell(BaseCommand.FLOW, consumer_id=1, messagePermits=permits)

    async def receive(self, count: int) -> list[Any]:
        """Receive that many messages and return their fields."""
        return [await self.expect(BaseCommand.MESSAGE) for _ in range(count)]

    def ack(self, *message_ids: object) -> None:
        """Acknowledge messages as consumer 1, without requesting a response."""
        kind = CommandAck.Individual
        self.tell(BaseCommand.ACK, consumer_id=1, ack_type=kind, message_id=message_ids)

    async def ask_ack(
        self,
        *message_ids: object,
        kind: CommandAck.AckType = CommandAck.Individual,
        consumer_id: int = 1,
        **more: Any,
    ) -> Any:
        """Acknowledge messages, and return the fields of the response."""
        ids = {"consumer_id": consumer_id, "ack_type": kind, "message_id": message_ids}
        request_id = self.ask(BaseCommand.ACK, **ids, **more)
        response = await self.expect(BaseCommand.ACK_RESPONSE)
        assert response.request_id == request_id
        return response

    @classmethod
    async def connect(cls, service_url: str) -> Self:
        host, _, port = service_url.removeprefix("pulsar://").rpartition(":")
        client = cls(*await asyncio.open_connection(host, int(port)))
        client.tell(BaseCommand.CONNECT, client_version="by hand", protocol_version=20)
        await client.expect(BaseCommand.CONNECTED)
        return client

    def close(self) -> None:
        """Close the connection without sending a command first."""
        self._writer.close()


@asynccontextmanager
async def raw_client(brokers: LocalCluster, topic: str) -> AsyncIterator[RawClient]:
    """Connect to the broker that serves the topic."""
    path = f"/lookup/v2/topic/persistent/{full_name(topic).removeprefix('persistent://')}"
    found = await asyncio.to_thread(done, brokers, "GET", path)
    client = await RawClient.connect(found["brokerUrl"])
    yield client
    client.close()
