"""The commands of the publisher's scripts: producers on a scripted ledger.

    deduplicate         use deduplication; this precedes all others
    attach p            connect producer p; p' and p'' are its later connections
    send p 0 1          send messages with these sequence ids
    batch p 10 19       send a batch with these first and last sequence ids
    chunk p 5 0 3       send chunk 0 of 3 of message 5
    detach p, drop p
    store 2             let the ledger store that many entries, or all
    abandon, reject     let the ledger fail with all entries, or reject entries from now on
    full, room          let the ledger make appends wait, or accept them
    fail lost           end the publisher for this reason
    reopen              let another owner open the topic
    last p              print the last sequence id that the topic knows
    snapshot            store the marks, and print them
    settled             print whether all sends are settled
    entries             print how many entries the ledger has stored
    turn                let the event loop run one turn

Every line of commands is followed by the sizes of the appends to the ledger, and by what each
producer and the topic are told. Receipts in one line were given together.
"""

import asyncio
from collections.abc import Sequence

from labkit.system.model.errors import BKLedgerFencedException, LabkitError
from labkit.system.topic.append_queue import PendingEntry
from labkit.system.topic.chain.ledger_chain import NOWHERE
from labkit.system.topic.producing.deduplication import Deduplication
from labkit.system.topic.producing.publishing import AttachedProducer, Send, TopicPublisher
from labkit.system.trace.recorder import Recorder
from tests.scripts import Commands
from tests.system.topic.ledgers import PlayedLedger
from tests.system.topic.producing.test_deduplication import chunk, message

FENCED = BKLedgerFencedException("fenced")


class _Ledger(PlayedLedger):
    """A ledger that accepts entries only while `has_room` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.has_room = asyncio.Event()
        self.has_room.set()

    async def append_entries(self, entries: Sequence[PendingEntry]) -> None:
        await self.has_room.wait()
        await super().append_entries(entries)


class PublishingCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        self._ledger = _Ledger()
        self._recorder = Recorder("broker", lambda: 0)
        self._recorder.listen(self.rows.extend)
        self._producers: dict[str, AttachedProducer] = {}
        self._open(None)

    def _open(self, deduplication: Deduplication | None) -> None:
        self._publisher = TopicPublisher(
            self._ledger.real,
            deduplication,
            self._recorder,
            lambda error: self.print_line(f"the topic failed: {error}"),
        )

    async def play(self, line: str) -> list[str]:
        await self.run(line)
        await asyncio.sleep(0.001)
        pushed, self._ledger.batches = self._ledger.batches, []
        return [*([f"pushed: {' '.join(map(str, pushed))}"] if pushed else []), *self.output()]

    # Producers

    async def deduplicate(self) -> None:
        self._open(await Deduplication.open(self._ledger.real, Recorder("broker", lambda: 0)))

    async def reopen(self) -> None:
        self._ledger.error = None
        await self.deduplicate()

    async def attach(self, connection: str) -> None:
        self._producers[connection] = self._publisher.attach(
            connection.rstrip("'"),
            lambda stored: self.print_line(f"{connection}: {', '.join(map(_receipt, stored))}"),
            lambda: self.print_line(f"{connection} was dropped"),
        )

    async def send(self, connection: str, *sequence_ids: int) -> None:
        producer = self._producers[connection]
        for sequence_id in sequence_ids:
            producer.send(sequence_id, 0, message(sequence_id, producer.name))

    async def batch(self, connection: str, first: int, last: int) -> None:
        count = last - first + 1
        self._producers[connection].send(first, last, b"batch", message_count=count)

    async def chunk(self, connection: str, sequence_id: int, number: int, of: int) -> None:
        data = chunk(sequence_id, number, of)
        self._producers[connection].send(sequence_id, 0, data, completes=number == of - 1)

    async def detach(self, connection: str) -> None:
        self._producers[connection].detach()

    async def drop(self, connection: str) -> None:
        self._producers[connection].drop()

    async def last(self, connection: str) -> None:
        self.print_line(f"last: {self._producers[connection].last_sequence_id}")

    # The topic

    async def store(self, count: int = 1000) -> None:
        self._ledger.store(count)

    async def abandon(self) -> None:
        self._ledger.abandon(FENCED)

    async def reject(self) -> None:
        self._ledger.error = FENCED

    async def full(self) -> None:
        self._ledger.has_room.clear()

    async def room(self) -> None:
        self._ledger.has_room.set()

    async def fail(self, reason: str) -> None:
        self._publisher.fail(LabkitError(reason))

    async def turn(self) -> None:
        await asyncio.sleep(0)

    async def snapshot(self) -> None:
        assert self._publisher.deduplication is not None
        self._publisher.deduplication.snapshot()
        self.print_line(f"marks: {self._ledger.cursor.properties}")

    async def settled(self) -> None:
        settling = asyncio.create_task(self._publisher.wait_until_settled())
        await asyncio.sleep(0.001)
        self.print_line("settled" if settling.done() else "not settled")

    async def entries(self) -> None:
        self.print_line(f"entries: {len(self._ledger.entries)}")


def _receipt(send: Send) -> str:
    first, last = send.sequence_id, send.highest_sequence_id
    ids = f"{first}" if first == last else f"{first}-{last}"
    if send.position == NOWHERE:
        return f"{ids} is a duplicate"
    return "{} at {}:{}".format(ids, *send.position)
