"""A broker with ledgers that the test controls, and a client that is connected to it."""

import pytest

from tests.system.broker.held import FrameClient, HeldBroker, held_broker


@pytest.fixture
async def broker() -> HeldBroker:
    return held_broker()


@pytest.fixture
async def client(broker: HeldBroker) -> FrameClient:
    return await FrameClient(broker).connect()
