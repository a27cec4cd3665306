"""Test that each connection state accepts exactly the commands that the table lists for it."""

from typing import Any

import pytest

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.broker.protocol.connection_state import ConnectionState
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, ServerError
from tests.system.broker.held import FrameClient, held_broker

CONNECT = {"client_version": "t", "auth_data": b"alice"}
COMMANDS: dict[BaseCommand.Type, dict[str, Any]] = {
    BaseCommand.CONNECT: CONNECT,
    BaseCommand.PING: {},
    BaseCommand.PONG: {},
    BaseCommand.AUTH_RESPONSE: {"response": {"auth_data": b"alice"}},
    BaseCommand.FLOW: {"consumer_id": 1, "messagePermits": 1},
}
AWAITS_CONNECT, CONNECTED = ConnectionState.AWAITS_CONNECT, ConnectionState.CONNECTED
CHALLENGED, REJECTED = ConnectionState.CHALLENGED, ConnectionState.REJECTED
ENDED_BY = {
    AWAITS_CONNECT: {BaseCommand.PONG, BaseCommand.AUTH_RESPONSE, BaseCommand.FLOW},
    CONNECTED: {BaseCommand.CONNECT},
    CHALLENGED: {BaseCommand.CONNECT},
    REJECTED: {BaseCommand.CONNECT, BaseCommand.AUTH_RESPONSE, BaseCommand.FLOW},
}


def identify(method: str, data: bytes) -> Identity:
    if data == b"mallory":
        raise BrokerError(ServerError.AuthenticationError, "mallory is nobody")
    return Identity("alice", expires_at_ms=100)


async def client_in(state: ConnectionState) -> FrameClient:
    broker = held_broker(authenticate=identify)
    client = FrameClient(broker)
    if state is not AWAITS_CONNECT:
        token = b"mallory" if state is REJECTED else b"alice"
        flags = {"supports_auth_refresh": True}
        client.say(BaseCommand.CONNECT, **{**CONNECT, "auth_data": token, "feature_flags": flags})
        await client.response(BaseCommand.CONNECTED)
    if state is CHALLENGED:
        [connection] = broker.connections
        connection.check_credentials(100)
        await client.response(BaseCommand.AUTH_CHALLENGE)
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
    client.say(BaseCommand.CONNECT, **CONNECT)
    [connection] = broker.connections
    client.close()
    connection.check_credentials(100)
    connection.end_probe()
    client.say(BaseCommand.CONNECT, **CONNECT)
    assert connection.is_closed
