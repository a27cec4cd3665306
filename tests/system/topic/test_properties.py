"""What is kept with a chain besides its ledgers."""

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import BKLedgerClosedException
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from tests.system.topic.simulated import opened, read_all, stored, tell


def test_property_is_kept_while_ledgers_come_and_go_and_the_next_owner_has_it() -> None:
    async def story(client: BookKeeper) -> None:
        ledger = await opened(client)
        assert ledger.properties == {}
        await ledger.set_property("epoch", "1")
        await ledger.set_property("other", "x")
        await stored(ledger, 0, 12)
        await ledger.set_property("epoch", "2")
        await stored(ledger, 12, 20)
        await ledger.trim()
        again = await opened(client)
        assert again.properties == {"epoch": "2", "other": "x"}
        assert await read_all(again) == list(range(20))
        await again.close()

    tell(story)


def test_a_replaced_owner_sets_no_property() -> None:
    async def story(client: BookKeeper) -> None:
        former = await opened(client)
        ended: list[Exception] = []
        former.when_ended(ended.append)
        new = await opened(client)
        with pytest.raises(ManagedLedgerFencedError):
            await former.set_property("epoch", "1")
        assert len(ended) == 1
        with pytest.raises(ManagedLedgerFencedError):
            await former.set_property("epoch", "1")
        assert new.properties == {}
        await new.close()
        with pytest.raises(BKLedgerClosedException):
            await new.set_property("epoch", "1")

    tell(story)
