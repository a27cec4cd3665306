"""Each state of a connection allows the commands of its row in the table, and no others."""

from typing import Any

import pytest

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.broker.protocol.connection_state import ConnectionState
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, ServerError
from tests.system.broker.held import FrameClient, held_broker

CONNECT = {"client_version": "t", "auth_data": b"alice"}
COMMANDS: dict[BaseCommand.Type, dict[str, Any]] = {
    BaseCommand.CONNECT: {"connect": CONNECT},
    BaseCommand.PING: {"ping": {}},
    BaseCommand.PONG: {"pong": {}},
    BaseCommand.AUTH_RESPONSE: {"authResponse": {"response": {"auth_data": b"alice"}}},
    BaseCommand.FLOW: {"flow": {"consumer_id": 1, "messagePermits": 1}},
}
AWAITS_CONNECT, CONNECTED = ConnectionState.AWAITS_CONNECT, ConnectionState.CONNECTED
CHALLENGED, REFUSED = ConnectionState.CHALLENGED, ConnectionState.REFUSED
ENDED_BY = {
    AWAITS_CONNECT: {BaseCommand.PONG, BaseCommand.AUTH_RESPONSE, BaseCommand.FLOW},
    CONNECTED: {BaseCommand.CONNECT},
    CHALLENGED: {BaseCommand.CONNECT},
    REFUSED: {BaseCommand.CONNECT, BaseCommand.AUTH_RESPONSE, BaseCommand.FLOW},
}


def identify(method: str, data: bytes) -> Identity:
    if data == b"mallory":
        raise BrokerError(ServerError.AuthenticationError, "mallory is nobody")
    return Identity("alice", expires_at_ms=100)


async def client_in(state: ConnectionState) -> FrameClient:
    broker = held_broker(authenticate=identify)
    client = FrameClient(broker)
    if state is not AWAITS_CONNECT:
        token = b"mallory" if state is REFUSED else b"alice"
        flags = {"supports_auth_refresh": True}
        connect = {**CONNECT, "auth_data": token, "feature_flags": flags}
        client.say(BaseCommand.CONNECT, connect=connect)
        await client.answer(BaseCommand.CONNECTED)
    if state is CHALLENGED:
        [connection] = broker.connections
        connection.check_credentials(100)
        await client.answer(BaseCommand.AUTH_CHALLENGE)
    return client


@pytest.mark.parametrize("kind", COMMANDS, ids=BaseCommand.Type.Name)
@pytest.mark.parametrize("state", ENDED_BY)
async def test_a_command_that_the_state_does_not_allow_ends_the_connection(
    state: ConnectionState, kind: BaseCommand.Type
) -> None:
    client = await client_in(state)
    client.say(kind, **COMMANDS[kind])
    assert client.closed == (kind in ENDED_BY[state])


async def test_a_closed_connection_stays_closed() -> None:
    broker = held_broker(authenticate=identify)
    client = FrameClient(broker)
    client.say(BaseCommand.CONNECT, connect=CONNECT)
    [connection] = broker.connections
    client.close()
    connection.check_credentials(100)
    connection.end_probe()
    client.say(BaseCommand.CONNECT, connect=CONNECT)
    assert connection.is_closed
