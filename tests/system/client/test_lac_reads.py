"""Test when a tailing reader trusts the LastAddConfirmed that a bookie reports, with fake
bookies.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.system.client.context import ClientContext
from labkit.system.client.lac_reads import LacReads
from labkit.system.client.protocol.protocol_v3 import LongPollResult, StoredLac
from labkit.system.model.entry import (
    NO_ENTRY_ID,
    Entry,
    encode_entry,
    encode_explicit_lac,
    make_digest,
)
from labkit.system.model.errors import (
    BKDigestMatchException,
    BKException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
    BKTimeoutException,
)
from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.loop import SimLoop

LEDGER = 7


@dataclass
class PlayedBookie:
    """A fake bookie that ends each long poll with `news`, but can prove only `known`."""

    news: LongPollResult
    known: StoredLac

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        assert ledger_id == LEDGER
        return self.news

    async def read_lac(self, ledger_id: int) -> StoredLac:
        assert ledger_id == LEDGER
        return self.known


def metadata_of(count: int) -> LedgerMetadata:
    names = tuple(f"b{number}" for number in range(count))
    return LedgerMetadata(count, count, count, (Segment(0, names),))


DIGEST = make_digest(metadata_of(1).digest_type, metadata_of(1).password)


def stored(entry_id: int, confirmed: int) -> bytes:
    return encode_entry(Entry(LEDGER, entry_id, confirmed, 1, b"x"), DIGEST)


def damaged(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def reads_of(metadata: LedgerMetadata, bookies: Sequence[PlayedBookie]) -> LacReads:
    by_name = dict(zip(metadata.segments[0].ensemble, bookies, strict=True))
    context = SimpleNamespace(
        bookie_client=SimpleNamespace(get_v3=by_name.__getitem__), recorder=Recorder("c", lambda: 0)
    )
    return LacReads(LEDGER, metadata, cast(ClientContext, context))


async def news(known: int, *bookies: PlayedBookie, wait_s: float = 60.0) -> tuple[int, int | None]:
    """Return the LastAddConfirmed that the reader accepts and the id of the entry that it
    received.
    """
    metadata = metadata_of(len(bookies))
    confirmed, entry = await reads_of(metadata, bookies).long_poll(metadata, known, wait_s)
    return confirmed, None if entry is None else entry.entry_id


async def test_long_poll_that_says_more_than_its_bookie_proves_counts_for_what_is_proven() -> None:
    bookie = PlayedBookie(LongPollResult(9, 2, stored(2, 1)), StoredLac(b"", stored(3, 2)))
    assert await news(1, bookie) == (2, 2)


async def test_a_bookie_that_proves_nothing_new_ends_a_long_poll_without_news() -> None:
    bookie = PlayedBookie(LongPollResult(9, NO_ENTRY_ID, b""), StoredLac(b"", stored(2, 1)))
    assert await news(1, bookie) == (1, None)


@pytest.mark.parametrize(
    "known",
    [
        StoredLac(damaged(encode_explicit_lac(LEDGER, 9, DIGEST)), b""),
        StoredLac(b"", damaged(stored(10, 9))),
    ],
    ids=["explicit", "entry"],
)
async def test_proof_with_a_wrong_digest_is_rejected(known: StoredLac) -> None:
    with pytest.raises(BKDigestMatchException):
        await news(1, PlayedBookie(LongPollResult(9, NO_ENTRY_ID, b""), known))


async def test_entry_of_a_long_poll_counts_only_with_its_digest() -> None:
    explicit = encode_explicit_lac(LEDGER, 2, DIGEST)
    with pytest.raises(BKDigestMatchException):
        await news(
            1, PlayedBookie(LongPollResult(2, 2, damaged(stored(2, 1))), StoredLac(explicit, b""))
        )


async def test_bookie_that_proves_more_is_heard_beside_one_that_only_says_so() -> None:
    liar = PlayedBookie(LongPollResult(9, NO_ENTRY_ID, b""), StoredLac(b"", damaged(stored(10, 9))))
    honest = PlayedBookie(LongPollResult(3, 2, stored(2, 1)), StoredLac(b"", stored(4, 3)))
    assert await news(1, liar, honest) == (3, 2)


class SlowBookie(PlayedBookie):
    """A fake bookie whose first poll times out and returns only what the reader already knew."""

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        answer = LongPollResult(previous_lac, NO_ENTRY_ID, b"") if self.polls == 0 else self.news
        self.polls += 1
        return answer

    polls: int = 0


async def test_a_bookie_whose_wait_was_in_vain_is_asked_again() -> None:
    bookie = SlowBookie(LongPollResult(3, 2, stored(2, 1)), StoredLac(b"", stored(4, 3)))
    assert await news(1, bookie) == (3, 2)
    assert bookie.polls == 2


@dataclass
class FailingBookie(PlayedBookie):
    """A fake bookie that raises each of `errors` once and then responds; it records the time and
    the allowed wait of each poll.
    """

    errors: list[BKException] = field(default_factory=list)
    asked: list[tuple[float, float]] = field(default_factory=list)
    takes_s: float = 0.0

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        self.asked.append((round(asyncio.get_running_loop().time(), 3), round(wait_s, 3)))
        await asyncio.sleep(min(self.takes_s, wait_s))
        if self.errors:
            raise self.errors.pop(0)
        return self.news

    async def read_lac(self, ledger_id: int) -> StoredLac:
        if self.errors:
            raise self.errors.pop(0)
        return self.known


TOLD = LongPollResult(3, 2, stored(2, 1)), StoredLac(b"", stored(4, 3))
NOTHING = LongPollResult(1, NO_ENTRY_ID, b""), StoredLac(b"", b"")
SILENT, LACKS = BKTimeoutException("no answer"), BKNoSuchEntryException("it has nothing")


def test_a_bookie_that_has_nothing_of_the_ledger_is_asked_again_after_a_pause() -> None:
    bookie = FailingBookie(*TOLD, errors=[BKNoSuchLedgerExistsException("none"), LACKS])
    assert SimLoop(event_budget=10_000).run(news(1, bookie)) == (3, 2)
    assert [at for at, _ in bookie.asked] == [0, 0.1, 0.2]


def test_a_bookie_that_ends_polls_early_is_asked_ten_times_a_second() -> None:
    """Bookies do so while the ledger is fenced."""
    bookie = FailingBookie(*NOTHING)
    assert SimLoop(event_budget=10_000).run(news(1, bookie, wait_s=0.25)) == (1, None)
    assert [at for at, _ in bookie.asked] == [0, 0.1, 0.2]


def test_no_single_wait_is_longer_than_a_second_nor_than_what_is_left() -> None:
    bookie = FailingBookie(*NOTHING, takes_s=60.0)
    assert SimLoop(event_budget=10_000).run(news(1, bookie, wait_s=2.5)) == (1, None)
    assert bookie.asked == [(0, 1), (1, 1), (2, 0.5)]


def test_a_reader_without_time_asks_no_bookie() -> None:
    bookie = FailingBookie(*TOLD)
    assert SimLoop(event_budget=10_000).run(news(1, bookie, wait_s=0.0)) == (1, None)
    assert bookie.asked == []


def test_a_bookie_that_fails_keeps_no_news_of_another_back() -> None:
    failing, other = FailingBookie(*TOLD, errors=[SILENT]), FailingBookie(*TOLD, takes_s=0.5)
    assert SimLoop(event_budget=10_000).run(news(1, failing, other)) == (3, 2)


def test_a_read_fails_if_all_bookies_fail_and_not_if_one_waits_in_vain() -> None:
    failing = [FailingBookie(*TOLD, errors=[SILENT]) for _ in range(3)]
    with pytest.raises(BKTimeoutException, match="no answer"):
        SimLoop(event_budget=10_000).run(news(1, *failing))
    failing = [FailingBookie(*TOLD, errors=[SILENT]) for _ in range(2)]
    waiting = FailingBookie(*NOTHING, takes_s=60.0)
    assert SimLoop(event_budget=10_000).run(news(1, *failing, waiting, wait_s=3.0)) == (1, None)


def explicit(*bookies: PlayedBookie) -> int:
    metadata = replace(metadata_of(len(bookies)), ack_quorum=2)

    async def asked() -> int:
        return await reads_of(metadata, bookies).highest(metadata)

    return SimLoop(event_budget=10_000).run(asked())


def knows(confirmed: int) -> FailingBookie:
    return FailingBookie(TOLD[0], StoredLac(encode_explicit_lac(LEDGER, confirmed, DIGEST), b""))


def test_the_highest_of_enough_bookies_counts_whatever_the_last_one_does() -> None:
    assert explicit(knows(4), knows(6), FailingBookie(*TOLD, errors=[SILENT])) == 6
    assert explicit(FailingBookie(*TOLD, errors=[SILENT]), knows(6), knows(4)) == 6


def test_a_bookie_that_has_nothing_counts_as_one_that_knows_nothing() -> None:
    none = [FailingBookie(*TOLD, errors=[LACKS]) for _ in range(2)]
    assert explicit(*none, FailingBookie(*TOLD, errors=[SILENT])) == NO_ENTRY_ID
    assert explicit(FailingBookie(*TOLD, errors=[LACKS]), knows(4), knows(4)) == 4


def test_too_few_responses_are_not_taken_for_all() -> None:
    failing = [FailingBookie(*TOLD, errors=[SILENT]) for _ in range(2)]
    with pytest.raises(
        BKReadException, match=r"ledger 7: too few bookies responded; .* \(no answer\)"
    ):
        explicit(*failing, knows(4))
