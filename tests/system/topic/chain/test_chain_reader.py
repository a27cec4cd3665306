"""What a managed ledger says of its entries, and what reading them takes."""

import asyncio
from collections import Counter

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.config import ManagedLedgerConfig
from tests.system.topic.simulated import all_entries, opened, stored, tell


def test_metadata_of_a_ledger_are_read_once_by_a_reader_that_goes_through_it() -> None:
    async def story(client: BookKeeper) -> None:
        old = await opened(client)
        await stored(old, 0, 12)
        await old.close()
        new = await opened(client)
        asked = Counter[int]()
        read_metadata = client.ledger_metadata

        async def counted(ledger_id: int) -> LedgerMetadata:
            asked[ledger_id] += 1
            return await read_metadata(ledger_id)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(client, "ledger_metadata", counted)
            entries = await all_entries(new, at_once=1)
        assert [int(entry.data) for entry in entries] == list(range(12))
        assert set(asked.values()) == {1}
        await new.close()

    tell(story)


def test_each_report_of_confirmed_entries_finds_the_end_moved() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client, ManagedLedgerConfig())
        ends: list[Position] = []
        ledger.when_confirmed(lambda: ends.append(ledger.last_confirmed))
        positions = await stored(ledger, 0, 30)
        positions += await stored(ledger, 30, 31)
        await asyncio.sleep(0)
        assert ends == sorted(set(ends))
        assert ends[-1] == positions[-1]
        await ledger.close()

    tell(story)
