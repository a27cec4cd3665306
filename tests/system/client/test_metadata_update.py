"""Tests for concurrent metadata updates: the first client stores its change, and the others find
out what has been stored.
"""

from dataclasses import replace
from typing import Any

import pytest

from labkit.system.client.ensemble import with_ensemble
from labkit.system.client.metadata_update import compare_and_set
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.entry import DigestType
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from tests.system.client.scripted_bookies import LEDGER, Script

OPENED_WITH: dict[str, Any] = {"digest_type": DigestType.CRC32, "password": b"secret"}


async def published(
    script: Script, known: LedgerMetadata, wanted: LedgerMetadata, version: int = 0
) -> tuple[bool, LedgerMetadata, int]:
    return await compare_and_set(LEDGER, known, version, wanted, script.client.context)


def told(script: Script) -> list[tuple[str, int, int, tuple[str, ...]]]:
    """Return kind, entry, size and ensemble of the events."""
    return [(row.kind, row.entry, row.size, row.ensemble) for row in script.rows]


async def test_the_first_change_is_stored_with_the_next_version() -> None:
    script = Script(3, 3, 2)
    wanted = with_ensemble(script.metadata, 5, ("b1", "b2", "b4"))
    assert await published(script, script.metadata, wanted) == (True, wanted, 1)
    assert await script.manager.read(LEDGER) == (wanted, 1)


async def test_a_new_segment_is_reported_once_by_each_who_learns_of_it() -> None:
    script = Script(3, 3, 2)
    wanted = with_ensemble(script.metadata, 5, ("b1", "b2", "b4"))
    event = ("ensemble.set", 5, -1, ("b1", "b2", "b4"))
    await published(script, script.metadata, wanted)
    assert told(script) == [event]
    await published(script, script.metadata, wanted)
    assert told(script) == [event] * 2
    await published(script, wanted, replace(wanted, custom_metadata=(("tag", b"x"),)), 1)
    assert told(script) == [event] * 2


async def test_a_closed_ledger_is_reported_with_its_end_by_who_closed_it() -> None:
    script = Script(3, 3, 2)
    closed = script.metadata.closed(9, 1000)
    await published(script, script.metadata, closed)
    assert told(script) == [("ledger.closed", 9, 1000, ())]
    stored, metadata, _ = await published(script, script.metadata, closed)
    assert (stored, metadata.state, len(script.rows)) == (False, LedgerState.CLOSED, 1)


async def test_a_client_that_was_not_first_keeps_the_password_that_the_store_does_not_have() -> (
    None
):
    script = Script(3, 3, 3)
    stored = replace(script.metadata, has_password=False, format_version=1)
    await script.manager.write(LEDGER, stored, 0)
    known = replace(stored, **OPENED_WITH)
    _, found, _ = await published(script, known, known.closed(0, 1))
    assert (found.digest_type, found.password) == (DigestType.CRC32, b"secret")
    assert found.state is LedgerState.OPEN


async def test_a_client_that_was_not_first_takes_the_password_of_the_store_if_it_has_one() -> None:
    script = Script(3, 3, 2)
    await script.manager.write(LEDGER, script.metadata, 0)
    known = replace(script.metadata, **OPENED_WITH)
    _, found, _ = await published(script, known, known.closed(0, 1))
    assert found == script.metadata
    assert (found.digest_type, found.password) == (DigestType.CRC32C, b"")


async def test_nothing_is_reported_of_a_change_that_may_not_be_stored() -> None:
    script = Script(3, 3, 2)
    script.store.fail_sets += 2 * [MetadataUnavailableError("no answer")]
    wanted = replace(script.metadata.closed(9, 1000), segments=(Segment(0, ("b1", "b2", "b4")),))
    with pytest.raises(MetadataUnavailableError):
        await published(script, script.metadata, wanted)
    assert script.rows == []


async def test_a_change_whose_request_was_lost_is_repeated() -> None:
    script = Script(3, 3, 2)
    script.store.fail_sets.append(MetadataUnavailableError("no answer"))
    wanted = script.metadata.closed(9, 1000)
    assert await published(script, script.metadata, wanted) == (True, wanted, 1)
    assert [event.kind for event in script.rows] == ["ledger.closed"]


async def test_a_change_whose_response_was_lost_is_read_back() -> None:
    script = Script(3, 3, 2)
    store_set = script.store.set

    async def loses_response(path: str, data: bytes, version: int) -> int:
        script.store.set = store_set  # type: ignore[method-assign]
        await store_set(path, data, version)
        raise MetadataUnavailableError("no answer")

    script.store.set = loses_response  # type: ignore[method-assign]
    wanted = script.metadata.closed(9, 1000)
    assert await published(script, script.metadata, wanted) == (False, wanted, 1)
