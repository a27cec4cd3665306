"""Which of a client's adds an answer, a time limit or a lost connection is for, in version 2."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from labkit.system.client.protocol import protocol_v2
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.model.errors import (
    BKClientClosedException,
    BKException,
)
from labkit.system.model.wire import Answer, Code, Opcode, encode_answer, encode_read
from labkit.worlds.sim.machine.loop import SimLoop
from tests.system.client.scripted_bookies import LEDGER, ScriptedNetwork
from tests.until import until

OTHER_LEDGER = LEDGER + 1
LONG_S = 3600.0


def added(entry_id: int, ledger_id: int = LEDGER) -> bytes:
    return encode_answer(Opcode.ADD, Code.OK, ledger_id, entry_id)


def was_read(entry_id: int, data: bytes = b"", ledger_id: int = LEDGER) -> bytes:
    return encode_answer(Opcode.READ, Code.OK, ledger_id, entry_id, data)


class Asker:
    """Adds and reads on one connection; `told` has what came of them, in that order."""

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
        def on_answer(answer: Answer | BKException) -> None:
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
        """Make the connection, and forget what that took."""
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


# Answers


async def test_answers_find_their_adds_in_whatever_order_they_come(
    asker: Asker,
) -> None:
    for entry_id in range(5):
        asker.add(entry_id)
    for entry_id in (0, 3, 1, 4, 2):
        asker.way.received([added(entry_id)])
        assert asker.told.pop() == f"add {entry_id}"
    assert asker.told == []


async def test_adds_after_an_answer_out_of_order_are_answered_like_those_before(
    asker: Asker,
) -> None:
    for entry_id in (0, 1):
        asker.add(entry_id)
    asker.way.received([added(1)])
    for entry_id in (2, 3):
        asker.add(entry_id)
    asker.way.received([added(2), added(3), added(0)])
    assert asker.told == ["add 1", "add 2", "add 3", "add 0"]


async def test_of_two_adds_of_one_entry_the_older_gets_the_first_answer(asker: Asker) -> None:
    asker.add(0, "older")
    asker.add(0, "newer")
    asker.way.received([added(0)])
    assert asker.told == ["older"]
    asker.way.received([added(0)])
    assert asker.told == ["older", "newer"]


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


async def test_entries_of_several_ledgers_are_told_apart(asker: Asker) -> None:
    asker.add(0, "one ledger")
    asker.add(0, "the other", OTHER_LEDGER)
    asker.way.received([added(0, OTHER_LEDGER)])
    assert asker.told == ["the other"]
    asker.way.received([added(0)])
    assert asker.told == ["the other", "one ledger"]


async def test_callers_hear_of_answers_in_the_order_of_their_arrival(asker: Asker) -> None:
    for entry_id in (0, 1, 2):
        asker.add(entry_id)
        asker.read(entry_id)
    asker.way.received(
        [added(0), was_read(1, b"data"), added(1), added(2), was_read(0, b""), was_read(2)]
    )
    assert asker.told == ["add 0", "read 1 data", "add 1", "add 2", "read 0", "read 2"]


@pytest.mark.parametrize("size", [0, 23])
async def test_a_bookie_whose_answers_are_all_too_short_is_left(asker: Asker, size: int) -> None:
    await asker.connect()
    asker.add(0)
    await asker.until_sent(1)
    asker.way.received([bytes(size)] * 4)
    await until(lambda: asker.told)
    assert asker.told == ["add 0: BKBookieHandleNotAvailableException"]
    assert f"it answered with {size} bytes, fewer than any answer has" in str(asker.errors[0])


# Errors of the connection


async def test_a_loss_gives_up_oldest_requests_first_and_adds_before_reads_of_one_turn(
    asker: Asker,
) -> None:
    await asker.connect()
    for turn in (0, 1):
        # In each turn, too, what was added comes first.
        asker.read(10 + turn)
        asker.add(20 + turn)
        asker.read(10 + turn)
        await asker.until_sent(3 * turn + 3)
    asker.bookie.drop()
    names = ["add 20", "read 10", "read 10", "add 21", "read 11", "read 11"]
    assert asker.told == [f"{name}: BKBookieHandleNotAvailableException" for name in names]


async def test_nothing_that_was_given_up_is_answered_again(asker: Asker) -> None:
    await asker.connect()
    asker.add(0)
    asker.add(0)
    asker.read(0)
    asker.read(0)
    await asker.until_sent(4)
    connection = asker.bookie.connections[0]
    asker.bookie.drop()
    assert len(asker.told) == 4
    connection.on_bodies([added(0), added(0), was_read(0), was_read(0)])
    assert len(asker.told) == 4


@pytest.mark.parametrize("what", ["add", "read"])
async def test_what_is_asked_of_a_closed_client_fails_after_the_call(
    asker: Asker, what: str
) -> None:
    await asker.connect()
    asker.way.close()
    asker.add(0) if what == "add" else asker.read(0)
    assert asker.told == []
    await until(lambda: asker.told)
    assert asker.told == [f"{what} 0: {BKClientClosedException.__name__}"]
    await asyncio.sleep(0)
    assert len(asker.told) == 1


async def test_requests_of_one_turn_leave_in_one_write_in_their_order(asker: Asker) -> None:
    await asker.connect()
    writes: list[list[bytes]] = []
    asker.bookie.connections[0].send = lambda bodies: writes.append([*bodies])  # type: ignore[method-assign]
    asker.add(0)
    asker.read(5)
    asker.add(1)
    await until(lambda: writes)
    assert writes == [[b"add 0", encode_read(LEDGER, 5), b"add 1"]]


# Time limits


async def test_an_add_without_an_answer_fails_at_its_time_and_says_what_it_waited_for(
    asker: Asker,
) -> None:
    await asker.connect()
    asker.way.timeout_s = 0.02
    asker.add(5)
    await until(lambda: asker.told)
    assert asker.told == ["add 5: BKTimeoutException"]
    error = str(asker.errors[0])
    assert error == f"b1 did not answer for entry 5 of ledger {LEDGER} within 0.02 s"


@pytest.mark.parametrize("what", ["add", "read"])
async def test_no_request_fails_before_its_time(asker: Asker, what: str) -> None:
    await asker.connect()
    asker.way.timeout_s = 0.05
    began = asyncio.get_running_loop().time()
    asker.add(0) if what == "add" else asker.read(0)
    await until(lambda: asker.told)
    assert asyncio.get_running_loop().time() - began >= 0.05
    assert asker.told == [f"{what} 0: BKTimeoutException"]


def test_no_request_waits_more_than_a_second_longer_than_its_time() -> None:
    async def run() -> None:
        asker = Asker()
        asker.way.timeout_s = 2.5
        began = asyncio.get_running_loop().time()
        asker.add(0)
        await until(lambda: asker.told)
        assert 2.5 <= asyncio.get_running_loop().time() - began <= 3.5
        asker.way.close()

    SimLoop().run(run())


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
    """Their answers, too, are for nobody; nothing has to be kept for them."""
    monkeypatch.setattr(protocol_v2, "_MOST_LATE", 0)
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
    monkeypatch.setattr(protocol_v2, "_MOST_LATE", 2)
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


async def test_adds_that_were_overdue_before_there_was_a_connection_are_never_sent(
    asker: Asker,
) -> None:
    asker.is_registered.clear()
    asker.way.timeout_s = 0.0
    for entry_id in (0, 1):
        asker.add(entry_id)
    asker.way.timeout_s = LONG_S
    asker.add(2)
    await until(lambda: len(asker.told) == 2)
    assert asker.told == [f"add {each}: BKTimeoutException" for each in (0, 1)]
    assert asker.way.outbox == [b"add 2"]
    asker.is_registered.set()
    await until(lambda: asker.bookie.asked)
    asker.way.received([added(2)])
    assert (asker.told[2:], len(asker.bookie.asked)) == (["add 2"], 1)
