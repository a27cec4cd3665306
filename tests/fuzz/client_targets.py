"""Fuzz the responses that a client receives from a bookie, in both protocols."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.client.protocol.protocol_v3 import PerChannelBookieClientV3
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.model.errors import BKException
from labkit.system.model.net import Connection, OnBodies, OnClose
from labkit.system.model.wire import Opcode, Response, encode_add, encode_read
from labkit.worlds.live.net import split_frames
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY
from tests.fuzz.harness import Target
from tests.fuzz.wire_targets import ANSWERS, ENTRY, GARBLED, framed, responses_3
from tests.ready_connection import ReadyConnection

LEDGER = 5


class _Hostile(ReadyConnection):
    """A network whose only connection leads to a hostile bookie."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.say: OnBodies = lambda bodies: None
        self._on_close: OnClose = lambda: None

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        self.say, self._on_close = on_bodies, on_close
        self.is_open.set()
        return self

    def send(self, bodies: Sequence[bytes]) -> None:
        """Ignore the request, because the responses are already fixed."""

    def close(self) -> None:
        self._on_close()


async def _endpoint(bookie: str) -> Endpoint:
    return Endpoint(BOOKIE_RPC, bookie, 1)


async def _say_in_version_2(data: bytes) -> None:
    """Check that each request is completed exactly once."""
    network, told = _Hostile(), list[tuple[int, Response | BKException | None]]()
    client = PerChannelBookieClientV2("b1", network, _endpoint, 60.0)

    def on_added(numbers: Sequence[int], error: BKException | None) -> None:
        told.extend((number, error) for number in numbers)

    client.add(LEDGER, 3, encode_add(MASTER_KEY, ENTRY), on_added, 0)

    def on_answer(number: int, answer: Response | BKException) -> None:
        told.append((number, answer))

    for number, entry_id in enumerate((3, 9, 9), 1):
        body = encode_read(LEDGER, entry_id)
        client.ask(Opcode.READ, LEDGER, entry_id, body, partial(on_answer, number))
    await network.is_open.wait()
    await asyncio.sleep(0)
    network.say(split_frames(data)[0])
    client.close()
    assert sorted(number for number, _ in told) == [0, 1, 2, 3]


async def _say_in_version_3(data: bytes) -> None:
    """Check that each request ends with a value or a `BKException`."""
    network = _Hostile()
    client = PerChannelBookieClientV3("b1", network, _endpoint, 60.0)
    asked: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(client.add(LEDGER, 3, ENTRY, MASTER_KEY)),
        asyncio.ensure_future(client.read_after(LEDGER, 1, 1.0)),
        asyncio.ensure_future(client.read_lac(LEDGER)),
        asyncio.ensure_future(client.list_of_entries(LEDGER)),
    ]
    await network.is_open.wait()
    await asyncio.sleep(0)
    network.say(split_frames(data)[0])
    client.close()
    for each in asked:
        with suppress(BKException):
            await each


def _run(say: Callable[[bytes], Coroutine[None, None, None]]) -> Callable[[bytes], None]:
    return lambda data: asyncio.run(say(data))


CLIENT_TARGETS = (
    Target("a bookie's answers at a client", _run(_say_in_version_2), (framed(ANSWERS),), GARBLED),
    Target("version 3 at a client", _run(_say_in_version_3), (framed(responses_3()),), GARBLED),
)
