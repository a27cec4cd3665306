"""Tests where a query starts and ends, and when it fails instead of silently omitting data."""

import pytest

from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.views.spark.bookkeeper.bounds import batch_bounds, check_ranges, check_readable
from labkit.views.spark.bookkeeper.directory import Chains
from labkit.views.spark.bookkeeper.opening import LedgerGoneError
from labkit.views.spark.bookkeeper.options import OptionError, Options, read_options
from labkit.views.spark.bookkeeper.spans import (
    EARLIEST,
    LATEST,
    Lane,
    LedgerSnapshot,
    ReadPosition,
)

P0, P1 = (Lane("persistent://public/default/t", partition) for partition in range(2))
CHAINS: Chains = {P0: [LedgerInfo(5), LedgerInfo(8)], P1: [LedgerInfo(6)]}
LEDGERS: Chains = {Lane("", each): [LedgerInfo(each)] for each in (5, 8)}


def of_topic(**given: str) -> Options:
    return read_options({"zookeeper": "127.0.0.1:2181", "topic": "t", **given})


def of_ledgers(ledgers: str = "5-", **given: str) -> Options:
    return read_options({"zookeeper": "127.0.0.1:2181", "ledgers": ledgers, **given})


def snapshot(ledger_id: int, last_entry_id: int) -> LedgerSnapshot:
    return LedgerSnapshot(ledger_id, last_entry_id, 100)


def test_a_bound_counts_for_its_own_partition() -> None:
    bounds = batch_bounds(of_topic(start="8:2:0:-1", end="6:1:1:3"), CHAINS)
    assert bounds == {P0: (ReadPosition(8, 2, 0), LATEST), P1: (EARLIEST, ReadPosition(6, 1, 4))}


@pytest.mark.parametrize("bound", ["start", "end"])
@pytest.mark.parametrize("ledger_id", [3, 7, 9])
def test_a_bound_in_a_ledger_that_is_not_there_is_a_loss(bound: str, ledger_id: int) -> None:
    named = f"{ledger_id}:0:0:-1"
    with pytest.raises(LedgerGoneError) as refused:
        batch_bounds(of_topic(**{bound: named}), CHAINS)
    assert f"option '{bound}': ledger {ledger_id} of {named} does not exist" in str(refused.value)
    assert "existing ledgers: 5 to 8" in str(refused.value)
    assert batch_bounds(of_topic(failOnDataLoss="false", **{bound: named}), CHAINS)


def test_a_bound_in_a_ledger_of_another_partition_is_a_loss() -> None:
    with pytest.raises(LedgerGoneError, match="ledger 5 of 5:0:1:-1 does not exist"):
        batch_bounds(of_topic(start="5:0:1:-1"), CHAINS)


def test_of_ledgers_the_bound_names_one_of_those_that_are_read() -> None:
    assert batch_bounds(of_ledgers(start="8:2:-1:-1"), LEDGERS)[Lane("", 8)] == (
        ReadPosition(8, 2, 0),
        LATEST,
    )
    with pytest.raises(LedgerGoneError, match="ledger 6 of 6:2:-1:-1 does not exist"):
        batch_bounds(of_ledgers(start="6:2:-1:-1"), LEDGERS)


def test_each_ledger_of_a_range_that_has_an_end_is_needed() -> None:
    everything: Chains = {Lane("", each): [LedgerInfo(each)] for each in (5, 6, 8)}
    check_ranges(of_ledgers(), everything)
    check_ranges(of_ledgers(ledgers="5-6,8"), everything)
    with pytest.raises(LedgerGoneError, match="only 3 of the ledgers 5-8 exist; 7 is the first"):
        check_ranges(of_ledgers(ledgers="5-8"), everything)
    with pytest.raises(LedgerGoneError, match="only 1 of the ledgers 8-9 exist; 9 is the first"):
        check_ranges(of_ledgers(ledgers="8-9"), everything)


def test_an_end_beyond_what_can_be_read_is_refused() -> None:
    bounds = batch_bounds(of_topic(end="8:3:0:-1"), CHAINS)
    check_readable(bounds, [(P0, snapshot(8, 3)), (P0, snapshot(5, 1))])
    with pytest.raises(
        OptionError, match="entry 3 of ledger 8 cannot be read; readable entries: 0 to 2"
    ):
        check_readable(bounds, [(P0, snapshot(8, 2))])
    with pytest.raises(OptionError, match="readable entries: none"):
        check_readable(bounds, [(P0, snapshot(8, -1))])


def test_the_ids_that_clients_print_for_the_two_ends_are_the_two_ends() -> None:
    last = (1 << 63) - 1
    options = of_topic(start="-1:-1:-1:-1", end=f"{last}:{last}:-1:-1")
    assert batch_bounds(options, CHAINS) == {P0: (EARLIEST, LATEST), P1: (EARLIEST, LATEST)}
