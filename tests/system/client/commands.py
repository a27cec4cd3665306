"""The commands of the client's scripts, which control a writer and bookies that respond only on
command.

    ledger 3 3 2 1       begin with E=3 Qw=3 Qa=2 on b1, b2 and b3, and one more bookie
    config key=value     configure the client; this precedes `ledger`
    add 2                add two entries
    ack b1 0 1           let b1 acknowledge entries 0 and 1
    reject b1 0 FENCED   let b1 reject entry 0, for a reason other than an I/O error
    drop b1, die b1      let b1 close its connections, and refuse new ones
    unregister b4, register b4
    close                close the writer
    meanwhile ack b1 0, add 1
                         do this before the writer's next change of the metadata takes effect
    replace 0 b1 b2 b5, recover, end
                         let another client replace bookies, begin a recovery, or close the ledger
    confirmed            print LastAddConfirmed
    wait 1

The output of a line of commands shows what has changed, namely the entries that a bookie has
received, the results of adds, and the ledger's metadata.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

from labkit.system.client.context import ClientConfig
from labkit.system.client.ensemble import with_ensemble
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.location import DEFAULT_LEDGERS_ROOT
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint, encode_service_info
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.wire import AddBatch, Code
from tests.scripts import Commands, ranges
from tests.system.client.memory_store import MemoryStore
from tests.system.client.scripted_bookies import LEDGER, Script, ScriptedBookie


class WriterCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        self._config = ClientConfig(request_timeout_s=60.0)
        self._adds: dict[int, asyncio.Future[int]] = {}
        self._add_count = 0
        self._sent: dict[int, bytes] = {}
        self._seen: dict[str, int] = {}
        self._metadata = ""
        self._meanwhile: list[str] = []

    async def play(self, line: str) -> list[str]:
        await self.run(line)
        # In virtual time, this returns when there is nothing left to do but wait.
        await asyncio.sleep(0.001)
        return [*self.output(), *self._received(), *self._results(), *await self._new_metadata()]

    def _bookie(self, name: str) -> ScriptedBookie:
        return self._script.network.bookies[name]

    def _received(self) -> Iterator[str]:
        bookies_by_entries: dict[str, list[str]] = {}
        for bookie in self._script.bookies:
            new = bookie.asked[self._seen.get(bookie.name, 0) :]
            self._seen[bookie.name] = len(bookie.asked)
            adds = [(r.entry_ids[0], r.entries[0]) for r in new if isinstance(r, AddBatch)]
            for entry_id, entry in adds:
                if self._sent.setdefault(entry_id, entry) != entry:
                    yield f"the bytes of entry {entry_id} have changed"
            entries = ranges([entry_id for entry_id, _ in adds])
            bookies_by_entries.setdefault(entries, []).append(bookie.name)
        for entries, bookies in bookies_by_entries.items():
            if entries:
                yield f"{entries} sent to {','.join(bookies)}"

    def _results(self) -> Iterator[str]:
        done = {entry_id: add for entry_id, add in self._adds.items() if add.done()}
        errors = {entry_id: error for entry_id, add in done.items() if (error := add.exception())}
        if added := [entry_id for entry_id in done if entry_id not in errors]:
            yield f"{ranges(added)} added"
        for entry_id, error in errors.items():
            yield f"{entry_id} not added: {type(error).__name__}: {error}"
        self._adds = {entry_id: add for entry_id, add in self._adds.items() if entry_id not in done}

    async def _new_metadata(self) -> list[str]:
        metadata = await self._script.stored_metadata()
        segments = (f"{s.first_entry_id}:{','.join(s.ensemble)}" for s in metadata.segments)
        is_closed = metadata.state is LedgerState.CLOSED
        end = f" at {metadata.last_entry_id}, {metadata.length} bytes" if is_closed else ""
        before, self._metadata = self._metadata, f"{metadata.state.name}{end}: {' '.join(segments)}"
        return [self._metadata] if self._metadata != before else []

    # The writer

    async def config(self, *settings: str) -> None:
        pairs = (setting.split("=") for setting in settings)
        values = {key: json.loads(value) for key, value in pairs}
        self._config = replace(self._config, **values)

    async def ledger(self, ensemble: int, write_quorum: int, ack_quorum: int, spares: int) -> None:
        sizes = ensemble, write_quorum, ack_quorum
        self._script = Script(*sizes, spares=spares, config=self._config)
        self.rows = self._script.rows
        self._writer: LedgerWriter = self._script.writer()

    @property
    def _store(self) -> MemoryStore:
        return self._script.store

    async def add(self, count: int) -> None:
        for _ in range(count):
            self._adds[self._add_count] = self._writer.add(b"entry %d" % self._add_count)
            self._add_count += 1

    async def close(self) -> None:
        # Do not wait here, because a close waits for the change of the ensemble.
        self._closing = asyncio.create_task(self._writer.close())
        await asyncio.sleep(0)

    async def confirmed(self) -> None:
        self.print_line(f"LastAddConfirmed {self._writer.last_add_confirmed}")

    # Bookies

    async def ack(self, bookie: str, *entry_ids: int) -> None:
        self._bookie(bookie).ack(*entry_ids)

    async def reject(self, bookie: str, entry_id: int, code: str = "IO_ERROR") -> None:
        self._bookie(bookie).reject(entry_id, Code[code])

    async def drop(self, *bookies: str) -> None:
        for bookie in bookies:
            self._bookie(bookie).drop()

    async def die(self, *bookies: str) -> None:
        for bookie in bookies:
            self._bookie(bookie).die()

    async def unregister(self, bookie: str) -> None:
        await self._store.delete(f"{DEFAULT_LEDGERS_ROOT}/available/{bookie}")

    async def register(self, bookie: str) -> None:
        endpoint = encode_service_info([Endpoint(BOOKIE_RPC, bookie, 1)])
        await self._store.create(f"{DEFAULT_LEDGERS_ROOT}/available/{bookie}", endpoint)

    async def wait(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    # Other clients

    async def meanwhile(self, *words: str | int) -> None:
        self._meanwhile.append(" ".join(map(str, words)).replace(",", ";"))
        self._store.before_next_set = self._do_meanwhile

    async def _do_meanwhile(self) -> None:
        line = self._meanwhile.pop(0)
        if self._meanwhile:
            self._store.before_next_set = self._do_meanwhile
        await self.run(line)

    async def replace(self, first_entry_id: int, *ensemble: str) -> None:
        metadata, _ = await self._script.manager.read(LEDGER)
        await self._write(with_ensemble(metadata, first_entry_id, ensemble))

    async def recover(self) -> None:
        metadata, _ = await self._script.manager.read(LEDGER)
        await self._write(replace(metadata, state=LedgerState.IN_RECOVERY))

    async def end(self) -> None:
        metadata, _ = await self._script.manager.read(LEDGER)
        await self._write(metadata.closed(-1, 0))

    async def _write(self, metadata: LedgerMetadata) -> None:
        _, version = await self._script.manager.read(LEDGER)
        await self._script.manager.write(LEDGER, metadata, version)
