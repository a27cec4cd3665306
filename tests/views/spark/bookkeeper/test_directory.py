"""Tests which of the requested ledgers a query reads."""

import asyncio
from typing import cast

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.views.spark.bookkeeper.bounds import check_ranges
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.opening import LedgerGoneError
from labkit.views.spark.bookkeeper.options import read_options
from labkit.views.spark.bookkeeper.spans import LedgerSnapshot


class _Cluster:
    async def list_ledgers(self) -> list[int]:
        return [3, 4, 9]


class _Counted(int):
    """An integer that counts how often it is compared."""

    comparisons = 0

    def __hash__(self) -> int:
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)

    def __lt__(self, other: int) -> bool:
        _Counted.comparisons += 1
        return super().__lt__(other)

    def __le__(self, other: int) -> bool:
        _Counted.comparisons += 1
        return super().__le__(other)

    def __gt__(self, other: int) -> bool:
        _Counted.comparisons += 1
        return super().__gt__(other)

    def __ge__(self, other: int) -> bool:
        _Counted.comparisons += 1
        return super().__ge__(other)


class _ManyLedgers:
    async def list_ledgers(self) -> list[int]:
        return [_Counted(number) for number in range(0, 4000, 2)]


def test_thousands_of_named_ledgers_are_found_without_comparing_each_with_each() -> None:
    named = list(range(0, 4000, 2))
    options = read_options({"zookeeper": "h:1", "ledgers": ",".join(map(str, named))})
    directory = LedgerDirectory(cast(BookKeeper, _ManyLedgers()), options)
    chains = asyncio.run(directory.chains())
    check_ranges(options, chains)
    assert [lane.number for lane in chains] == named
    assert 0 < _Counted.comparisons < 100 * len(named)


def lanes(ledgers: str, fails: str) -> list[int]:
    options = read_options({"zookeeper": "h:1", "ledgers": ledgers, "failOnDataLoss": fails})
    directory = LedgerDirectory(cast(BookKeeper, _Cluster()), options)
    return [lane.number for lane in asyncio.run(directory.chains())]


@pytest.mark.parametrize("ledgers", ["3,7,9", "3,5-6,9", "3,9,10-"])
def test_named_ledgers_that_are_gone_are_left_out_where_data_loss_is_allowed(ledgers: str) -> None:
    assert lanes(ledgers, "false") == [3, 9]


@pytest.mark.parametrize("fails", ["true", "false"])
@pytest.mark.parametrize(
    ("ledgers", "what"),
    [
        ("7", "ledger 7 does not exist "),
        ("5-6", "none of the ledgers 5-6 exist "),
        ("10-", "no ledger from 10 on exists "),
    ],
)
def test_a_query_of_ledgers_that_are_all_gone_fails(ledgers: str, what: str, fails: str) -> None:
    with pytest.raises(LedgerGoneError, match=f"{what}.*ledgers: 3 to 9.*failOnDataLoss"):
        lanes(ledgers, fails)


def test_a_query_with_one_ledger_gone_fails_by_default() -> None:
    with pytest.raises(LedgerGoneError, match="ledger 7 does not exist "):
        lanes("3,7,9", "true")


async def test_a_ledger_that_is_closed_in_the_chain_is_found_without_its_metadata() -> None:
    class NoCluster:
        """Has no metadata: every request would fail."""

    options = read_options({"zookeeper": "h:1", "topic": "t"})
    directory = LedgerDirectory(cast(BookKeeper, NoCluster()), options)
    found = await directory.lookup(LedgerInfo(7, 50, 1234, closed_at_ms=1))
    assert found == LedgerSnapshot(7, 49, 1234)
