"""Tests for ledgers with version 1 metadata, which contains neither password nor digest type, so
the opener has to supply them.
"""

from collections.abc import Awaitable
from dataclasses import replace

import pytest

from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import DigestType, Entry, encode_entry, make_digest
from labkit.system.model.errors import BKDigestMatchException, BKUnauthorizedAccessException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, encode_ledger_metadata
from tests.system.client.scripted_bookies import LEDGER, Script

PATH = "/ledgers/00/0000/L0007"


def opened(script: Script) -> Awaitable[LedgerReader]:
    """Open the ledger with the password and digest type that its metadata does not contain."""
    return script.client.open_ledger(LEDGER, digest_type=DigestType.HMAC, password=b"secret")


def of_version_1(script: Script, state: LedgerState) -> bytes:
    """Return the encoded metadata."""
    last, length = (0, 5) if state is LedgerState.CLOSED else (-1, 0)
    segments = script.metadata.segments
    metadata = LedgerMetadata(3, 3, 3, segments, state=state, last_entry_id=last, length=length)
    return encode_ledger_metadata(replace(metadata, has_password=False, format_version=1))


async def made(state: LedgerState) -> Script:
    """Create a ledger with one entry on three bookies, protected by a password."""
    script = Script(3, 3, 3)
    script.all_serve()
    script.store.tree.set(PATH, of_version_1(script, state), -1)
    entry = Entry(LEDGER, 0, -1, 5, b"hello")
    data = encode_entry(entry, make_digest(DigestType.HMAC, b"secret"))
    for bookie in script.bookies:
        bookie.entries[0] = data
    return script


async def test_opener_says_password_and_digest_type() -> None:
    script = await made(LedgerState.CLOSED)
    reader = await opened(script)
    assert (await reader.read_entry(0)).payload == b"hello"


async def test_a_client_with_another_password_reads_nothing() -> None:
    script = await made(LedgerState.CLOSED)
    reader = await script.client.open_ledger(LEDGER, password=b"guess")
    with pytest.raises(BKDigestMatchException):
        await reader.read_entry(0)


async def test_recovery_writes_back_with_what_the_opener_said_and_keeps_the_version() -> None:
    script = await made(LedgerState.OPEN)

    async def another_marks_it() -> None:
        script.store.tree.set(PATH, of_version_1(script, LedgerState.IN_RECOVERY), -1)

    script.store.before_next_set = another_marks_it
    reader = await opened(script)
    assert [entry.payload async for entry in reader.read()] == [b"hello"]
    stored = await script.stored_metadata()
    assert (stored.state, stored.last_entry_id) == (LedgerState.CLOSED, 0)
    assert (stored.format_version, stored.has_password, stored.password) == (1, False, b"")


async def test_other_versions_know_their_password() -> None:
    script = Script(3, 3, 2)
    with pytest.raises(BKUnauthorizedAccessException):
        await script.client.open_ledger(LEDGER, password=b"guess")


async def test_a_reader_that_reads_the_metadata_again_keeps_what_the_opener_said() -> None:
    script = await made(LedgerState.OPEN)
    reader = await script.client.open_ledger_no_recovery(
        LEDGER, digest_type=DigestType.HMAC, password=b"secret"
    )
    assert reader.is_watching
    credentials = reader.metadata.digest_type, reader.metadata.password
    assert credentials == (DigestType.HMAC, b"secret")
