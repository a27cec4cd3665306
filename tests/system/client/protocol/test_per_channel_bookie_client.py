"""Tests for the connection handling that both protocol versions share."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from labkit.system.client.protocol import per_channel_bookie_client
from labkit.system.client.protocol.bookie_client import BookieClient
from labkit.system.client.protocol.per_channel_bookie_client import PerChannelBookieClient
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.client.protocol.protocol_v3 import PerChannelBookieClientV3
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKClientClosedException,
    BKException,
)
from labkit.system.model.net import Connection, OnBodies, OnClose
from labkit.worlds.sim.machine.loop import SimLoop
from tests.ready_connection import ReadyConnection
from tests.until import until


class Network(ReadyConnection):
    """A network and all of its connections; records each batch of sent frames separately."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.lose: list[OnClose] = []

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        self.lose.append(on_close)
        return self

    def send(self, bodies: Sequence[bytes]) -> None:
        self.batches.append([*bodies])

    def close(self) -> None:
        self.lose[-1]()


async def endpoint(bookie: str) -> Endpoint:
    return Endpoint(BOOKIE_RPC, bookie, 1)


class Requests(PerChannelBookieClient):
    """A minimal implementation of a protocol version."""

    def __init__(self, network: Network) -> None:
        super().__init__("b1", network, endpoint, 60.0)
        self.pending: list[bytes] = []
        self.given_up: list[tuple[bytes, BKException]] = []

    def ask(self, body: bytes) -> BKException | None:
        if not self.outbox and (error := self.schedule_send()) is not None:
            return error
        self.pending.append(body)
        self.outbox.append(body)
        return None

    def received(self, bodies: Sequence[bytes]) -> None:
        """Do nothing, because nothing responds in these tests."""

    def fail_pending(self, error: BKException) -> None:
        self.given_up += [(body, error) for body in self.pending]
        self.pending = []


@pytest.fixture
def network() -> Network:
    return Network()


@pytest.fixture
async def client(network: Network) -> AsyncIterator[Requests]:
    client = Requests(network)
    yield client
    client.close()


async def test_requests_of_one_turn_go_out_together_and_in_order(
    client: Requests, network: Network
) -> None:
    client.ask(b"1")
    client.ask(b"2")
    await until(lambda: network.batches)
    client.ask(b"3")
    client.ask(b"4")
    await asyncio.sleep(0)
    client.ask(b"5")
    await until(lambda: len(network.batches) == 3)
    assert network.batches == [[b"1", b"2"], [b"3", b"4"], [b"5"]]
    assert client.connection_count == 1


async def test_a_lost_connection_gives_up_all_that_was_asked_even_what_was_not_sent(
    client: Requests, network: Network
) -> None:
    client.ask(b"sent")
    await until(lambda: network.batches)
    client.ask(b"unsent")
    network.lose[0]()
    assert [body for body, _ in client.given_up] == [b"sent", b"unsent"]
    for _, error in client.given_up:
        assert isinstance(error, BKBookieHandleNotAvailableException)
        assert str(error) == "b1 cannot be reached: the connection was lost"
    await asyncio.sleep(0)
    assert network.batches == [[b"sent"]]


async def test_just_after_a_loss_requests_are_rejected_without_a_connection(
    client: Requests, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(per_channel_bookie_client, "_RETRY_AFTER_S", 3600.0)
    client.ask(b"1")
    await until(lambda: network.batches)
    network.lose[0]()
    assert client.ask(b"2") is client.given_up[0][1]
    assert len(network.lose) == 1


async def test_what_is_asked_after_a_loss_waits_for_the_new_connection(
    client: Requests, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(per_channel_bookie_client, "_RETRY_AFTER_S", 0.0)
    failed: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: failed.append(context))
    client.ask(b"1")
    await until(lambda: network.batches)
    client.ask(b"lost")
    network.lose[0]()
    client.ask(b"2")
    await until(lambda: len(network.batches) == 2)
    assert network.batches[1] == [b"2"]
    assert failed == []


def test_a_tenth_of_a_second_after_a_loss_a_request_connects_again() -> None:
    async def connections_after(wait_s: float) -> int:
        network = Network()
        client = Requests(network)
        client.ask(b"1")
        await until(lambda: network.batches)
        network.lose[0]()
        await asyncio.sleep(wait_s)
        client.ask(b"2")
        await asyncio.sleep(1.0)
        client.close()
        return len(network.lose)

    assert SimLoop().run(connections_after(0.09)) == 1
    assert SimLoop().run(connections_after(0.11)) == 2


async def test_a_closed_client_rejects_for_ever(
    client: Requests, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(per_channel_bookie_client, "_RETRY_AFTER_S", 0.0)
    client.ask(b"1")
    client.close()
    assert isinstance(client.ask(b"2"), BKClientClosedException)
    assert [type(error) for _, error in client.given_up] == [BKClientClosedException]
    assert network.lose == []


async def test_the_pool_has_one_connection_for_each_bookie_and_version(network: Network) -> None:
    pool = BookieClient(network, endpoint, 60.0)
    assert pool.get("b1") is pool.get("b1")
    assert pool.get_v3("b1") is pool.get_v3("b1")
    assert pool.get("b1") is not pool.get("b2")
    clients: list[PerChannelBookieClient] = [pool.get("b1"), pool.get_v3("b1")]
    assert [type(client) for client in clients] == [
        PerChannelBookieClientV2,
        PerChannelBookieClientV3,
    ]
    pool.close()
    assert all(isinstance(client.schedule_send(), BKClientClosedException) for client in clients)


async def test_a_closed_pool_makes_no_connection_to_a_bookie_that_it_has_not_used_before(
    network: Network,
) -> None:
    pool = BookieClient(network, endpoint, 60.0)
    pool.close()
    clients: list[PerChannelBookieClient] = [pool.get("b1"), pool.get_v3("b1")]
    assert all(isinstance(client.schedule_send(), BKClientClosedException) for client in clients)
