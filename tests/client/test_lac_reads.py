"""What a tailing reader believes of a bookie's word, by bookies that the test plays."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest

from labkit.client.context import ClientContext
from labkit.client.lac_reads import LacReads
from labkit.client.protocol_v3 import KnownLac, News
from labkit.model.entry import NO_ENTRY_ID, Entry, encode_entry, encode_explicit_lac, make_digest
from labkit.model.errors import BKDigestMatchException
from labkit.model.ledger import LedgerMetadata, Segment
from labkit.trace.recorder import Recorder

LEDGER = 7


@dataclass
class PlayedBookie:
    """Ends each long poll with `news`, and proves no more than `known`."""

    news: News
    known: KnownLac

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> News:
        assert ledger_id == LEDGER
        return self.news

    async def read_lac(self, ledger_id: int) -> KnownLac:
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


async def news(known: int, *bookies: PlayedBookie) -> tuple[int, int | None]:
    """The LastAddConfirmed that is believed, and the entry that came along."""
    metadata = metadata_of(len(bookies))
    by_name = dict(zip(metadata.segments[0].ensemble, bookies, strict=True))
    context = SimpleNamespace(
        bookies=SimpleNamespace(get_v3=by_name.__getitem__), recorder=Recorder("c", lambda: 0)
    )
    reads = LacReads(LEDGER, metadata, cast(ClientContext, context))
    confirmed, entry = await reads.news(metadata, known, 60.0)
    return confirmed, None if entry is None else entry.entry_id


async def test_long_poll_that_says_more_than_its_bookie_proves_counts_for_what_is_proven() -> None:
    bookie = PlayedBookie(News(9, 2, stored(2, 1)), KnownLac(b"", stored(3, 2)))
    assert await news(1, bookie) == (2, 2)


async def test_a_bookie_that_proves_nothing_new_ends_a_long_poll_without_news() -> None:
    bookie = PlayedBookie(News(9, NO_ENTRY_ID, b""), KnownLac(b"", stored(2, 1)))
    assert await news(1, bookie) == (1, None)


@pytest.mark.parametrize(
    "known",
    [
        KnownLac(damaged(encode_explicit_lac(LEDGER, 9, DIGEST)), b""),
        KnownLac(b"", damaged(stored(10, 9))),
    ],
    ids=["explicit", "entry"],
)
async def test_proof_with_a_wrong_digest_is_refused(known: KnownLac) -> None:
    with pytest.raises(BKDigestMatchException):
        await news(1, PlayedBookie(News(9, NO_ENTRY_ID, b""), known))


async def test_entry_of_a_long_poll_counts_only_with_its_digest() -> None:
    explicit = encode_explicit_lac(LEDGER, 2, DIGEST)
    with pytest.raises(BKDigestMatchException):
        await news(1, PlayedBookie(News(2, 2, damaged(stored(2, 1))), KnownLac(explicit, b"")))


async def test_bookie_that_proves_more_is_heard_beside_one_that_only_says_so() -> None:
    liar = PlayedBookie(News(9, NO_ENTRY_ID, b""), KnownLac(b"", damaged(stored(10, 9))))
    honest = PlayedBookie(News(3, 2, stored(2, 1)), KnownLac(b"", stored(4, 3)))
    assert await news(1, liar, honest) == (3, 2)


class SlowBookie(PlayedBookie):
    """Its first poll ends with what the reader knew, as after a wait in vain."""

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> News:
        answer = News(previous_lac, NO_ENTRY_ID, b"") if self.polls == 0 else self.news
        self.polls += 1
        return answer

    polls: int = 0


async def test_a_bookie_whose_wait_was_in_vain_is_asked_again() -> None:
    bookie = SlowBookie(News(3, 2, stored(2, 1)), KnownLac(b"", stored(4, 3)))
    assert await news(1, bookie) == (3, 2)
    assert bookie.polls == 2
