"""A real bookie is killed repeatedly at random moments and loses no acknowledged entry.

Its limits are so small that it is constantly flushing, rolling over journals and entry logs,
collecting garbage and compacting. Set `LABKIT_KILL_ROUNDS=200` for the long test.
"""

import asyncio
import os
import random
import struct
from itertools import count
from pathlib import Path

import pytest

from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.system.storage.entry_log import log_ids
from labkit.system.storage.journal import journal_ids
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.system.bookie.raw import FENCE, FENCED, KEY, RawClient, add, added, answer, entry, read
from tests.until import until
from tests.worlds.live.real_bookie import RealBookie

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java, pytest.mark.slow]

ROUNDS = int(os.environ.get("LABKIT_KILL_ROUNDS", "12"))
MOST_ROUNDS = 5 * ROUNDS
LONGEST_LIFE_S = 1.0
IN_FLIGHT = 300
OPEN_LEDGERS = 4
KEPT_ENTRIES = 4000
BUSY: dict[str, object] = {
    "skipListSizeLimit": 32 * 1024,
    "logSizeLimit": 64 * 1024,
    "journalMaxSizeMB": 1,
    "journalMaxBackups": 0,
    "openFileLimit": 3,
    "pageSize": 256,
    "flushInterval": 50,
    "gcWaitTime": 100,
    "minorCompactionInterval": 0.1,
    "minorCompactionThreshold": 0.5,
    "majorCompactionInterval": 0.3,
    "majorCompactionThreshold": 0.95,
    "isThrottleByBytes": "true",
    "compactionRateByBytes": 5_000_000,
}


def payload(ledger_id: int, entry_id: int) -> bytes:
    """Return a payload of up to 3000 bytes that is unique to this entry."""
    size = (7919 * ledger_id + 104_729 * entry_id) % 3000
    return (f"{ledger_id}/{entry_id} ".encode() * 400)[:size]


class Client:
    """A client that adds entries, fences and deletes ledgers, and records acknowledged requests."""

    def __init__(self, manager: LedgerManager, bookie_id: str, seed: int) -> None:
        self.random = random.Random(seed)
        self.acked: dict[int, set[int]] = {}
        """The acknowledged entries of each existing ledger."""
        self.fenced: set[int] = set()
        self._open: list[int] = []
        self._next_entry: dict[int, int] = {}
        self._in_flight = 0
        self._ids = count(1)
        self._manager = manager
        self._metadata = LedgerMetadata(1, 1, 1, (Segment(0, (bookie_id,)),))

    @property
    def acked_count(self) -> int:
        return sum(map(len, self.acked.values()))

    async def create(self) -> int:
        ledger_id = next(self._ids)
        await self._manager.create(ledger_id, self._metadata)
        self.acked[ledger_id] = set()
        self._next_entry[ledger_id] = 0
        return ledger_id

    async def add_forever(self, bookie: RawClient) -> None:
        self._in_flight = 0
        while True:
            await self._change_ledgers(bookie)
            for _ in range(self.random.randrange(1, 20)):
                await self.send_adds(bookie, self.random.choice(self._open))
                while self._in_flight > IN_FLIGHT:  # noqa: ASYNC110 - acks come in the other task
                    await asyncio.sleep(0)

    async def send_adds(self, bookie: RawClient, ledger_id: int) -> None:
        first = self._next_entry[ledger_id]
        last = first + self.random.randrange(1, 30)
        self._next_entry[ledger_id] = last
        self._in_flight += last - first
        requests = (add(ledger_id, n, payload(ledger_id, n)) for n in range(first, last))
        await bookie.send(b"".join(requests))

    async def _change_ledgers(self, bookie: RawClient) -> None:
        while len(self._open) < OPEN_LEDGERS:
            self._open.append(await self.create())
        if self.random.random() < 0.3:
            await bookie.send(read(self._open.pop(0), -1, FENCE, KEY))
        if self.acked_count > KEPT_ENTRIES:
            # Keep the first ledger, because it shows that old logs are compacted.
            ledger_id = self.random.choice(sorted(self.acked)[1:])
            self._forget(ledger_id)
            await self._manager.delete(ledger_id)

    def _forget(self, ledger_id: int) -> None:
        del self.acked[ledger_id]
        self.fenced.discard(ledger_id)
        if ledger_id in self._open:
            self._open.remove(ledger_id)

    async def receive_to_the_end(self, bookie: RawClient) -> None:
        """Process every response, including those that were sent before the bookie was killed."""
        while True:
            try:
                frame = await bookie.receive()
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            _, _, opcode, _, code, ledger_id, entry_id = struct.unpack_from(">IBBHiqq", frame)
            if opcode == 2:
                self.fenced.update({ledger_id} & self.acked.keys())
                continue
            self._in_flight -= 1
            if ledger_id in self.acked:
                assert code == 0
                self.acked[ledger_id].add(entry_id)
            else:  # The bookie rejects adds to a deleted ledger that it has already collected.
                assert code in (0, FENCED)

    async def check(self, bookie: RawClient) -> None:
        """Check that every acknowledged entry can be read and every fenced ledger rejects adds."""
        for ledger_id, entry_ids in self.acked.items():
            await bookie.send(b"".join(read(ledger_id, n) for n in entry_ids))
            for n in entry_ids:
                stored = entry(ledger_id, n, payload(ledger_id, n))
                assert await bookie.receive() == answer(2, 0, ledger_id, n, stored)
        for ledger_id in self.fenced:
            late = self._next_entry[ledger_id]
            assert await bookie.ask(add(ledger_id, late)) == added(ledger_id, late, FENCED)


async def live_until_killed(client: Client, bookie: RealBookie) -> None:
    async with RawClient(bookie.port) as connection:
        await client.check(connection)
        receiving = asyncio.create_task(client.receive_to_the_end(connection))
        adding = asyncio.create_task(client.add_forever(connection))
        # Kill the bookie at a random moment, without waiting for any event.
        life_s = client.random.uniform(0, LONGEST_LIFE_S)
        done, _ = await asyncio.wait((adding, receiving), timeout=life_s)
        assert not done, [task.exception() for task in done]
        adding.cancel()
        await bookie.kill()
        await asyncio.wait((adding,))
        await receiving


@pytest.mark.promise("No kill at any moment loses an acknowledged entry")
async def test_no_kill_at_any_moment_loses_an_acked_entry(
    zookeeper: EmbeddedZooKeeper, store: ZooKeeperStore, tmp_path: Path
) -> None:
    bookie = RealBookie(tmp_path / "killed", zookeeper.address, BUSY)
    client = Client(LedgerManager(store), "killed", seed=ROUNDS)
    async with bookie:
        first = await client.create()
        async with RawClient(bookie.port) as connection:
            receiving = asyncio.create_task(client.receive_to_the_end(connection))
            await client.send_adds(connection, first)
            await until(lambda: client.acked[first])
            await bookie.kill()
            await receiving
    journals, ledgers = (RealDisk(bookie.folder / each) for each in ("journal", "ledgers"))
    first_journal_id = journal_ids(journals)[0]
    for life in range(1, MOST_ROUNDS + 1):
        async with bookie:
            await live_until_killed(client, bookie)
        # On a slow machine, it takes more rounds to fill as many files.
        if life >= ROUNDS and max(log_ids(ledgers)) > 5 * ROUNDS:
            break
    async with bookie, RawClient(bookie.port) as connection:
        await client.check(connection)
        # The first log still contains a live entry, so it must have been compacted by now.
        await until(lambda: min(log_ids(ledgers)) > 0, deadline_s=120)
        await client.check(connection)
    assert max(log_ids(ledgers)) > 5 * ROUNDS
    assert journal_ids(journals)[0] > first_journal_id
    assert client.fenced
