"""Tests for a client's connection to a bookie in version 2, whose responses only repeat the ids of
their requests.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from labkit.system.client.protocol import per_channel_bookie_client, protocol_v2
from labkit.system.client.protocol.protocol_v2 import PerChannelBookieClientV2
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKLedgerFencedException,
    BKTimeoutException,
)
from labkit.system.model.wire import (
    Code,
    Flag,
    Opcode,
    ReadRequest,
    Response,
    encode_read,
    encode_response,
)
from tests.system.client.scripted_bookies import LEDGER, ScriptedNetwork
from tests.until import until, until_true
from tests.virtual_time import in_virtual_time

KEY = bytes(20)
NEWEST = -1
PLAIN, FENCING = 0, int(Flag.FENCE)
Told = list[Response | BKException]


OTHER_LEDGER = LEDGER + 1
LONG_S = 3600.0


def added(entry_id: int, ledger_id: int = LEDGER) -> bytes:
    return encode_response(Opcode.ADD, Code.OK, ledger_id, entry_id)


def was_read(entry_id: int, data: bytes = b"", ledger_id: int = LEDGER) -> bytes:
    return encode_response(Opcode.READ, Code.OK, ledger_id, entry_id, data)


class Client:
    """A client of a scripted bookie. `told` lists the results of `add` and `read` in order of
    completion.
    """

    def __init__(self, timeout_s: float) -> None:
        network = ScriptedNetwork("b1")
        self.bookie = network.bookies["b1"]
        self.way = PerChannelBookieClientV2("b1", network, self._endpoint, timeout_s)

        self.told: list[str] = []
        self.errors: list[BKException] = []
        self.is_registered = asyncio.Event()
        self.is_registered.set()

    async def _endpoint(self, bookie: str) -> Endpoint:
        await self.is_registered.wait()
        return Endpoint(BOOKIE_RPC, bookie, 1)

    async def read_newest(self, *, fences: bool) -> Told:
        """Read the newest entry, and wait until the bookie has received the request; the response
        is added to the list.
        """
        told: Told = []
        asked = len(self.bookie.asked)
        body = encode_read(LEDGER, NEWEST, KEY if fences else b"")
        self.way.ask(Opcode.READ, LEDGER, NEWEST, body, told.append, fences=fences)
        await until(lambda: len(self.bookie.asked) > asked)
        return told

    def answer(self, connection: int, data: bytes) -> None:
        """Answer the oldest read on this connection; connections are numbered in order of
        creation.
        """
        self.bookie.connections[connection].say(Opcode.READ, Code.OK, NEWEST, data)

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

    @property
    def flags(self) -> list[int]:
        return [each.flags for each in self.bookie.asked if isinstance(each, ReadRequest)]


def entries(told: Told) -> list[bytes]:
    return [each.entry for each in told if isinstance(each, Response)]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    client = Client(timeout_s=60.0)
    yield client
    client.way.close()


@pytest.fixture
async def impatient() -> AsyncIterator[Client]:
    client = Client(timeout_s=0.01)
    yield client
    client.way.close()


@pytest.fixture
async def patient(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Client]:
    monkeypatch.setattr(protocol_v2, "_MONITOR_INTERVAL_S", 0.01)
    client = Client(LONG_S)
    yield client
    client.way.close()


@pytest.mark.promise("A response to a plain read, however late, never counts as a fence")
@pytest.mark.parametrize("fences_first", [False, True])
async def test_responses_to_a_plain_and_a_fencing_read_are_never_mistaken(
    client: Client, fences_first: bool
) -> None:
    first = await client.read_newest(fences=fences_first)
    second = await client.read_newest(fences=not fences_first)
    assert sorted(client.flags) == [PLAIN, FENCING]
    client.answer(1, b"to the second")
    assert (entries(first), entries(second)) == ([], [b"to the second"])
    client.answer(0, b"to the first")
    assert (entries(first), entries(second)) == ([b"to the first"], [b"to the second"])


@pytest.mark.parametrize("fences_first", [False, True])
async def test_late_response_of_a_read_that_was_given_up_is_not_that_of_the_other_kind(
    impatient: Client, fences_first: bool
) -> None:
    given_up = await impatient.read_newest(fences=fences_first)
    await until(lambda: given_up)
    assert isinstance(given_up[0], BKTimeoutException)
    other = await impatient.read_newest(fences=not fences_first)
    impatient.answer(0, b"late")
    assert (len(given_up), other) == (1, [])
    impatient.answer(1, b"to the other")
    assert entries(other) == [b"to the other"]


async def test_reads_of_one_kind_share_a_connection_and_get_their_responses_in_turn(
    client: Client,
) -> None:
    told = [await client.read_newest(fences=True) for _ in range(3)]
    assert client.bookie.connect_count == 1
    for data in (b"0", b"1", b"2"):
        client.answer(0, data)
    assert [entries(each) for each in told] == [[b"0"], [b"1"], [b"2"]]


async def test_a_connection_is_for_fencing_reads_until_the_last_one_has_its_response(
    client: Client,
) -> None:
    told = [await client.read_newest(fences=True) for _ in range(2)]
    client.answer(0, b"first")
    plain = await client.read_newest(fences=False)
    assert client.bookie.connect_count == 2
    client.answer(0, b"second")
    client.answer(1, b"plain")
    assert [entries(each) for each in (*told, plain)] == [[b"first"], [b"second"], [b"plain"]]


async def test_reads_with_responses_leave_the_connection_to_the_other_kind(client: Client) -> None:
    for fences in (False, True, False, True):
        told = await client.read_newest(fences=fences)
        client.answer(0, b"now")
        assert entries(told) == [b"now"]
    assert client.bookie.connect_count == 1


async def test_new_connection_owes_no_responses_of_the_lost_one(client: Client) -> None:
    await client.read_newest(fences=False)
    client.bookie.drop()
    told: Told = []

    async def is_sent() -> bool:
        """Send a read and return whether it was sent; requests right after a connection loss are
        rejected.
        """
        told.clear()
        body = encode_read(LEDGER, NEWEST, KEY)
        client.way.ask(Opcode.READ, LEDGER, NEWEST, body, told.append, fences=True)
        await asyncio.sleep(0)
        return not told

    await until_true(is_sent)
    await until(lambda: client.flags == [PLAIN, FENCING])
    client.answer(0, b"fenced")
    assert entries(told) == [b"fenced"]
    assert client.bookie.connect_count == 2


@pytest.mark.parametrize("nonsense", [b"", b"\x02", bytes(23)])
async def test_a_bookie_that_talks_nonsense_is_left(client: Client, nonsense: bytes) -> None:
    told = await client.read_newest(fences=False)
    client.bookie.connections[0].on_bodies([nonsense])
    await until(lambda: told)
    assert isinstance(told[0], BKBookieHandleNotAvailableException)
    assert f"b1 cannot be reached: invalid response: {len(nonsense)} bytes" in str(told[0])


async def test_what_timed_out_before_there_was_a_connection_is_never_sent(
    impatient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise requests would pile up while the metadata store is not responding."""
    monkeypatch.setattr(protocol_v2, "_MONITOR_INTERVAL_S", 0.01)
    impatient.is_registered.clear()
    told: Told = []
    for number in range(100):
        for _ in range(1 + number % 2):  # Every second request is sent twice.
            body = encode_read(LEDGER, number, b"")
            impatient.way.ask(Opcode.READ, LEDGER, number, body, told.append)
    await until(lambda: len(told) == 150)
    assert {type(error) for error in told} == {BKTimeoutException}
    body = encode_read(LEDGER, 777, b"")
    impatient.way.ask(Opcode.READ, LEDGER, 777, body, told.append)
    impatient.is_registered.set()
    await until(lambda: impatient.bookie.asked)
    assert impatient.bookie.reads == [777]


async def test_a_bookie_that_owes_too_many_responses_is_left(
    impatient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_v2, "_MONITOR_INTERVAL_S", 0.01)
    monkeypatch.setattr(protocol_v2, "_MAX_OVERDUE_RESPONSES", 9)
    monkeypatch.setattr(per_channel_bookie_client, "_RETRY_AFTER_S", 3600.0)
    for _ in range(10):
        told = await impatient.read_newest(fences=False)
        await until(told.__len__)
        assert isinstance(told[0], BKTimeoutException)

    async def is_rejected() -> bool:
        """Return whether a request is rejected; it times out until the connection is closed."""
        told.clear()
        body = encode_read(LEDGER, NEWEST, b"")
        impatient.way.ask(Opcode.READ, LEDGER, NEWEST, body, told.append)
        await until(lambda: told)
        return isinstance(told[0], BKBookieHandleNotAvailableException)

    await until_true(is_rejected)
    assert "b1 cannot be reached: responses to 1" in str(told[0])
    assert impatient.bookie.connect_count == 1


async def test_responses_that_come_together_go_to_each_writer_together_and_in_their_order(
    client: Client,
) -> None:
    told: list[tuple[str, list[int], type[BKException] | None]] = []

    def one(entry_ids: Sequence[int], error: BKException | None) -> None:
        told.append(("one", [*entry_ids], type(error) if error else None))

    def other(entry_ids: Sequence[int], error: BKException | None) -> None:
        told.append(("other", [*entry_ids], type(error) if error else None))

    for entry_id, writer in enumerate((one, one, one, one, other, one)):
        client.way.add(LEDGER, entry_id, b"", writer, entry_id)
    codes = Code.OK, Code.OK, Code.FENCED, Code.OK, Code.OK, Code.OK
    client.way.received(
        [encode_response(Opcode.ADD, code, LEDGER, number) for number, code in enumerate(codes)]
    )
    assert told == [
        ("one", [0, 1], None),
        ("one", [2], BKLedgerFencedException),
        ("one", [3], None),
        ("other", [4], None),
        ("one", [5], None),
    ]


async def test_responses_before_one_that_makes_no_sense_count(client: Client) -> None:
    told: list[int] = []

    def on_added(entry_ids: Sequence[int], _error: BKException | None) -> None:
        told.extend(entry_ids)

    client.way.add(LEDGER, 0, b"", on_added, 0)
    client.way.received([encode_response(Opcode.ADD, Code.OK, LEDGER, 0), b"short"])
    assert told == [0]


@pytest.mark.parametrize("fences", [False, True])
async def test_after_its_late_responses_came_the_first_connection_is_free_for_the_other_kind(
    impatient: Client, fences: bool
) -> None:
    given_up = [await impatient.read_newest(fences=fences) for _ in range(2)]
    await until(lambda: all(given_up))
    impatient.answer(0, b"late")
    await impatient.read_newest(fences=not fences)
    assert impatient.bookie.connect_count == 2
    impatient.answer(0, b"late, too")
    told = await impatient.read_newest(fences=not fences)
    impatient.answer(0, b"in time")
    assert entries(told) == [b"in time"]


# Several requests


async def test_responses_find_their_adds_in_whatever_order_they_come(
    patient: Client,
) -> None:
    for entry_id in range(5):
        patient.add(entry_id)
    for entry_id in (0, 3, 1, 4, 2):
        patient.way.received([added(entry_id)])
        assert patient.told.pop() == f"add {entry_id}"
    assert patient.told == []


async def test_an_older_add_of_the_same_entry_comes_first_after_a_response_out_of_order(
    patient: Client,
) -> None:
    patient.add(0, "oldest")
    patient.add(0, "older")
    patient.add(1)
    patient.way.received([added(1)])
    patient.add(0, "newer")
    patient.add(0, "newest")
    for _ in range(4):
        patient.way.received([added(0)])
    assert patient.told == ["add 1", "oldest", "older", "newer", "newest"]


async def test_a_response_to_nothing_that_was_asked_is_dropped(patient: Client) -> None:
    for entry_id in (0, 1):
        patient.add(entry_id)
    patient.way.received([added(9), added(0, OTHER_LEDGER), was_read(0), added(1, OTHER_LEDGER)])
    assert patient.told == []
    patient.way.received([added(0), added(0), added(1)])
    assert patient.told == ["add 0", "add 1"]


# Connection errors


async def test_a_loss_gives_up_oldest_requests_first_and_adds_before_reads_of_one_turn(
    patient: Client,
) -> None:
    await patient.connect()
    for turn in (0, 1):
        # Within each turn, adds are sent before reads.
        patient.read(10 + turn)
        patient.add(20 + turn)
        patient.read(10 + turn)
        await patient.until_sent(3 * turn + 3)
    patient.bookie.drop()
    names = ["add 20", "read 10", "read 10", "add 21", "read 11", "read 11"]
    assert patient.told == [f"{name}: BKBookieHandleNotAvailableException" for name in names]


# Timeouts


async def test_an_add_without_a_response_fails_at_its_time_and_says_what_it_waited_for(
    patient: Client,
) -> None:
    await patient.connect()
    patient.way.timeout_s = 0.02
    patient.add(5)
    await until(lambda: patient.told)
    assert patient.told == ["add 5: BKTimeoutException"]
    error = str(patient.errors[0])
    assert error == f"b1 did not respond for entry 5 of ledger {LEDGER} within 0.02 s"


@in_virtual_time
async def test_no_request_waits_more_than_a_second_longer_than_its_time() -> None:
    patient = Client(LONG_S)
    patient.way.timeout_s = 2.5
    began = asyncio.get_running_loop().time()
    patient.add(0)
    await until(lambda: patient.told)
    assert 2.5 <= asyncio.get_running_loop().time() - began <= 3.5
    patient.way.close()


@pytest.mark.parametrize("what", ["add", "read"])
async def test_later_requests_go_on_waiting_when_one_fails(patient: Client, what: str) -> None:
    await patient.connect()
    ask, answer = (patient.add, added) if what == "add" else (patient.read, was_read)
    for entry_id, timeout_s in enumerate((0.0, 0.05, LONG_S, LONG_S)):
        patient.way.timeout_s = timeout_s
        ask(entry_id)
        await patient.until_sent(entry_id + 1)
    await until(lambda: len(patient.told) == 2)
    assert patient.told == [f"{what} {entry_id}: BKTimeoutException" for entry_id in (0, 1)]
    patient.way.received([answer(3), answer(2)])
    assert patient.told[2:] == [f"{what} 3", f"{what} 2"]


@pytest.mark.parametrize("what", ["add", "read"])
async def test_of_several_that_ask_the_same_those_in_time_get_a_response(
    patient: Client, what: str
) -> None:
    await patient.connect()
    ask, answer = (patient.add, added) if what == "add" else (patient.read, was_read)
    for number, timeout_s in enumerate((0.0, 0.0, LONG_S, LONG_S)):
        patient.way.timeout_s = timeout_s
        ask(0)
        await patient.until_sent(number + 1)
    await until(lambda: patient.told)
    assert patient.told == [f"{what} 0: BKTimeoutException"] * 2
    patient.way.received([answer(0)])
    assert patient.told[2:] == [f"{what} 0"]
    patient.way.received([answer(0), answer(0)])
    assert patient.told[2:] == [f"{what} 0"] * 2


async def test_overdue_requests_fail_oldest_first_and_adds_before_reads_of_one_turn(
    patient: Client,
) -> None:
    await patient.connect()
    patient.way.timeout_s = 0.0
    for turn in (0, 1):
        patient.read(10 + turn)
        patient.add(20 + turn)
        await asyncio.sleep(0)
    await until(lambda: len(patient.told) == 4)
    names = ["add 20", "read 10", "add 21", "read 11"]
    assert patient.told == [f"{name}: BKTimeoutException" for name in names]


async def test_a_bookie_is_not_left_because_of_overdue_adds(
    patient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Late responses to adds are dropped, so no state has to be kept for them."""
    monkeypatch.setattr(protocol_v2, "_MAX_OVERDUE_RESPONSES", 0)
    await patient.connect()
    patient.way.timeout_s = 0.0
    for entry_id in range(3):
        patient.add(entry_id)
    await until(lambda: len(patient.told) == 3)
    patient.way.timeout_s = LONG_S
    patient.add(3)
    await patient.until_sent(4)
    patient.way.received([added(entry_id) for entry_id in range(4)])
    assert patient.told[3:] == ["add 3"]
    assert patient.bookie.connect_count == 1


async def test_a_bookie_may_owe_as_many_reads_as_the_limit_says(
    patient: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol_v2, "_MAX_OVERDUE_RESPONSES", 2)
    await patient.connect()
    patient.way.timeout_s = 0.0
    for entry_id in (1, 2):
        patient.read(entry_id)
    await until(lambda: len(patient.told) == 2)
    patient.way.received([was_read(1)])
    patient.read(3)
    await until(lambda: len(patient.told) == 3)
    patient.way.timeout_s = LONG_S
    patient.read(4)
    await patient.until_sent(4)
    patient.way.received([was_read(4)])
    assert patient.told[3:] == ["read 4"]
    assert patient.bookie.connect_count == 1
