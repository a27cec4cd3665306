"""Test which add is completed by a response, a timeout or a lost connection in version 2."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from labkit.system.client.protocol import protocol_v2
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.model.errors import (
    BKException,
)
from labkit.system.model.wire import Code, Opcode, Response, encode_read, encode_response
from tests.system.client.scripted_bookies import LEDGER, ScriptedNetwork
from tests.until import until
from tests.virtual_time import in_virtual_time

OTHER_LEDGER = LEDGER + 1
LONG_S = 3600.0


def added(entry_id: int, ledger_id: int = LEDGER) -> bytes:
    return encode_response(Opcode.ADD, Code.OK, ledger_id, entry_id)


def was_read(entry_id: int, data: bytes = b"", ledger_id: int = LEDGER) -> bytes:
    return encode_response(Opcode.READ, Code.OK, ledger_id, entry_id, data)


class Asker:
    """Sends adds and reads on one connection; `told` lists their results in order of completion."""

    def __init__(self) -> None:
        network = ScriptedNetwork("b1")
        self.bookie = network.bookies["b1"]
        self.way = PerChannelBookieClientV2("b1", network, self._endpoint, LONG_S)
        self.told: list[str] = []
        self.errors: list[BKException] = []
        self.is_registered = asyncio.Event()
        self.is_registered.set()

    async def _endpoint(self, bookie: str) -> Endpoint:
        await self.is_registered.wait()
        return Endpoint(BOOKIE_RPC, bookie, 1)

    def add(self, entry_id: int, name: str = "", ledger_id: int = LEDGER) -> None:
        body = f"add {entry_id}".encode()
        name = name or f"add {entry_id}"
        self.way.add(ledger_id, entry_id, body, self._on_added, name)

    def _on_added(self, names: Sequence[str], error: BKException | None) -> None:
        for name in names:
            self._tell(name, error)

    def read(self, entry_id: int) -> None:
        def on_answer(answer: Response | BKException) -> None:
            failed = isinstance(answer, BKException)
            told = "" if isinstance(answer, BKException) else answer.entry.decode()
            self._tell(f"read {entry_id} {told}".strip(), answer if failed else None)

        body = encode_read(LEDGER, entry_id)
        self.way.ask(Opcode.READ, LEDGER, entry_id, body, on_answer)

    def _tell(self, name: str, error: object) -> None:
        if isinstance(error, BKException):
            self.errors.append(error)
            name += f": {type(error).__name__}"
        self.told.append(name)

    async def connect(self) -> None:
        """Open the connection with a read, and clear the recorded results."""
        self.read(0)
        await self.until_sent(1)
        self.way.received([was_read(0)])
        self.told.clear()
        self.bookie.asked.clear()

    async def until_sent(self, count: int) -> None:
        await until(lambda: len(self.bookie.asked) >= count)


@pytest.fixture
async def asker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asker]:
    monkeypatch.setattr(protocol_v2, "_MONITOR_INTERVAL_S", 0.01)
    asker = Asker()
    yield asker
    asker.way.close()


# Responses


async def test_answers_find_their_adds_in_whatever_order_they_come(
    asker: Asker,
) -> None:
    for entry_id in range(5):
        asker.add(entry_id)
    for entry_id in (0, 3, 1, 4, 2):
        asker.way.received([added(entry_id)])
        assert asker.told.pop() == f"add {entry_id}"
    assert asker.told == []


async def test_an_older_add_of_the_same_entry_comes_first_after_an_answer_out_of_order(
    asker: Asker,
) -> None:
    asker.add(0, "oldest")
    asker.add(0, "older")
    asker.add(1)
    asker.way.received([added(1)])
    asker.add(0, "newer")
    asker.add(0, "newest")
    for _ in range(4):
        asker.way.received([added(0)])
    assert asker.told == ["add 1", "oldest", "older", "newer", "newest"]


async def test_an_answer_to_nothing_that_was_asked_is_dropped(asker: Asker) -> None:
    for entry_id in (0, 1):
        asker.add(entry_id)
    asker.way.received([added(9), added(0, OTHER_LEDGER), was_read(0), added(1, OTHER_LEDGER)])
    assert asker.told == []
    asker.way.received([added(0), added(0), added(1)])
    assert asker.told == ["add 0", "add 1"]


# Connection errors


async def test_a_loss_gives_up_oldest_requests_first_and_adds_before_reads_of_one_turn(
    asker: Asker,
) -> None:
    await asker.connect()
    for turn in (0, 1):
        # Within each turn, adds are sent before reads.
        asker.read(10 + turn)
        asker.add(20 + turn)
        asker.read(10 + turn)
        await asker.until_sent(3 * turn + 3)
    asker.bookie.drop()
    names = ["add 20", "read 10", "read 10", "add 21", "read 11", "read 11"]
    assert asker.told == [f"{name}: BKBookieHandleNotAvailableException" for name in names]


# Timeouts


async def test_an_add_without_an_answer_fails_at_its_time_and_says_what_it_waited_for(
    asker: Asker,
) -> None:
    await asker.connect()
    asker.way.timeout_s = 0.02
    asker.add(5)
    await until(lambda: asker.told)
    assert asker.told == ["add 5: BKTimeoutException"]
    error = str(asker.errors[0])
    assert error == f"b1 did not respond for entry 5 of ledger {LEDGER} within 0.02 s"


@in_virtual_time
async def test_no_request_waits_more_than_a_second_longer_than_its_time() -> None:
    asker = Asker()
    asker.way.timeout_s = 2.5
    began = asyncio.get_running_loop().time()
    asker.add(0)
    await until(lambda: asker.told)
    assert 2.5 <= asyncio.get_running_loop().time() - began <= 3.5
    asker.way.close()


@pytest.mark.parametrize("what", ["add", "read"])
async def test_later_requests_go_on_waiting_when_one_fails(asker: Asker, what: str) -> None:
    await asker.connect()
    ask, answer = (asker.add, added) if what == "add" else (asker.read, was_read)
    for entry_id, timeout_s in enumerate((0.0, 0.05, LONG_S, LONG_S)):
        asker.way.timeout_s = timeout_s
        ask(entry_id)
        await asker.until_sent(entry_id + 1)
    await until(lambda: len(asker.told) == 2)
    assert asker.told == [f"{what} {entry_id}: BKTimeoutException" for entry_id in (0, 1)]
    asker.way.received([answer(3), answer(2)])
    assert asker.told[2:] == [f"{what} 3", f"{what} 2"]


@pytest.mark.parametrize("what", ["add", "read"])
async def test_of_several_that_ask_the_same_those_in_time_are_answered(
    asker: Asker, what: str
) -> None:
    await asker.connect()
    ask, answer = (asker.add, added) if what == "add" else (asker.read, was_read)
    for number, timeout_s in enumerate((0.0, 0.0, LONG_S, LONG_S)):
        asker.way.timeout_s = timeout_s
        ask(0)
        await asker.until_sent(number + 1)
    await until(lambda: asker.told)
    assert asker.told == [f"{what} 0: BKTimeoutException"] * 2
    asker.way.received([answer(0)])
    assert asker.told[2:] == [f"{what} 0"]
    asker.way.received([answer(0), answer(0)])
    assert asker.told[2:] == [f"{what} 0"] * 2


async def test_overdue_requests_fail_oldest_first_and_adds_before_reads_of_one_turn(
    asker: Asker,
) -> None:
    await asker.connect()
    asker.way.timeout_s = 0.0
    for turn in (0, 1):
        asker.read(10 + turn)
        asker.add(20 + turn)
        await asyncio.sleep(0)
    await until(lambda: len(asker.told) == 4)
    names = ["add 20", "read 10", "add 21", "read 11"]
    assert asker.told == [f"{name}: BKTimeoutException" for name in names]


async def test_a_bookie_is_not_left_because_of_overdue_adds(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late responses to adds are dropped, so no state has to be kept for them."""
    monkeypatch.setattr(protocol_v2, "_MAX_OVERDUE_RESPONSES", 0)
    await asker.connect()
    asker.way.timeout_s = 0.0
    for entry_id in range(3):
        asker.add(entry_id)
    await until(lambda: len(asker.told) == 3)
    asker.way.timeout_s = LONG_S
    asker.add(3)
    await asker.until_sent(4)
    asker.way.received([added(entry_id) for entry_id in range(4)])
    assert asker.told[3:] == ["add 3"]
    assert asker.bookie.connect_count == 1


async def test_a_bookie_may_owe_as_many_reads_as_the_limit_says(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_v2, "_MAX_OVERDUE_RESPONSES", 2)
    await asker.connect()
    asker.way.timeout_s = 0.0
    for entry_id in (1, 2):
        asker.read(entry_id)
    await until(lambda: len(asker.told) == 2)
    asker.way.received([was_read(1)])
    asker.read(3)
    await until(lambda: len(asker.told) == 3)
    asker.way.timeout_s = LONG_S
    asker.read(4)
    await asker.until_sent(4)
    asker.way.received([was_read(4)])
    assert asker.told[3:] == ["read 4"]
    assert asker.bookie.connect_count == 1
