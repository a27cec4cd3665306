"""Tests for clients whose tokens expire while they are connected."""

import pytest

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import REFRESH, Identity
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    ServerError,
)
from tests.system.broker.held import FrameClient, HeldBroker, held_broker


def role_until(method: str, data: bytes) -> Identity:
    """Authenticate a token of the form `role expiry`, with the expiry time in milliseconds."""
    role, _, expires_at_ms = data.decode().partition(" ")
    if role == "mallory":
        raise BrokerError(ServerError.AuthenticationError, "mallory is nobody")
    return Identity(role, int(expires_at_ms))


async def come_in(broker: HeldBroker, token: bytes, *, may_be_asked: bool = True) -> FrameClient:
    client = FrameClient(broker)
    client.say(
        BaseCommand.CONNECT,
        client_version="t",
        auth_method_name="token",
        auth_data=token,
        feature_flags={"supports_auth_refresh": may_be_asked},
    )
    await client.answer(BaseCommand.CONNECTED)
    return client


def show(client: FrameClient, token: bytes) -> None:
    response = {"auth_method_name": "token", "auth_data": token}
    client.say(BaseCommand.AUTH_RESPONSE, response=response)


async def test_client_whose_token_expires_is_asked_for_another_and_goes_on() -> None:
    broker = held_broker(authenticate=role_until)
    client = await come_in(broker, b"alice 100")
    [connection] = broker.connections
    connection.check_credentials(99)
    connection.check_credentials(100)
    challenge = await client.answer(BaseCommand.AUTH_CHALLENGE)
    assert challenge.challenge.auth_method_name == "token"
    assert challenge.challenge.auth_data == REFRESH
    show(client, b"alice 200")
    for now_ms in (150, 199):
        connection.check_credentials(now_ms)
    assert await client.produce("mine")
    connection.check_credentials(200)
    assert await client.answer(BaseCommand.AUTH_CHALLENGE)


@pytest.mark.parametrize("token", [b"bob 200", b"mallory 200", b"alice 100"])
async def test_client_with_no_better_token_for_its_role_loses_the_connection(token: bytes) -> None:
    broker = held_broker(authenticate=role_until)
    client = await come_in(broker, b"alice 100")
    [connection] = broker.connections
    connection.check_credentials(100)
    await client.answer(BaseCommand.AUTH_CHALLENGE)
    show(client, token)
    connection.check_credentials(101)
    connection.check_credentials(102)
    assert client.closed


async def test_client_that_does_not_answer_or_cannot_be_asked_loses_the_connection() -> None:
    broker = held_broker(authenticate=role_until)
    silent = await come_in(broker, b"alice 100")
    old = await come_in(broker, b"alice 100", may_be_asked=False)
    for connection in list(broker.connections):
        connection.check_credentials(100)
    assert (silent.closed, old.closed) == (False, True)
    [connection] = broker.connections
    connection.check_credentials(101)
    assert silent.closed


async def test_a_broker_without_authentication_asks_no_client_for_a_new_token() -> None:
    client = await FrameClient(held_broker()).connect()
    await client.produce("mine")
    show(client, b"anything")
    assert not client.closed
