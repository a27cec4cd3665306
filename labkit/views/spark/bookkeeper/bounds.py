"""Converts the options for start and end to the first and the last position of each lane.

For one topic, `start` and `end` may contain an id for each partition; for ledgers, a single id
applies to all of them. For one or more topics, `startingTime` and `endingTime` apply to all
partitions.

If the ledger of a bound does not exist, the query fails or, if option `failOnDataLoss` is false,
reads the remaining ledgers.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import partial

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.directory import Chains, LedgerDirectory
from labkit.views.spark.bookkeeper.opening import LedgerGoneError
from labkit.views.spark.bookkeeper.options import NO_END, Bound, OptionError, Options
from labkit.views.spark.bookkeeper.spans import (
    EARLIEST,
    LATEST,
    WHOLE,
    Lane,
    LedgerSnapshot,
    ReadPosition,
    ending_with,
    starting_at,
)
from labkit.views.spark.bookkeeper.times import first_published_from

Bounds = dict[Lane, tuple[ReadPosition, ReadPosition]]
"""The first and the last position of each lane."""


def batch_bounds(options: Options, chains: Chains) -> Bounds:
    """Return the bounds of a batch query.

    Raises `OptionError` if an id does not belong to any lane, and `LedgerGoneError` if its ledger
    does not exist.
    """
    if options.start == "latest":
        raise OptionError(
            "option 'start' can be 'latest' only in a stream, because nothing follows it in a batch"
            " query; use 'earliest' or a MessageID"
        )
    starts = named_ids("start", options.start, options, chains)
    ends = named_ids("end", options.end, options, chains)
    return {
        lane: (
            starting_at(starts[lane]) if lane in starts else EARLIEST,
            ending_with(ends[lane]) if lane in ends else LATEST,
        )
        for lane in chains
    }


async def with_times(
    bounds: Bounds, options: Options, chains: Chains, directory: LedgerDirectory
) -> Bounds:
    """Replace bounds that are given as publish times with positions. Raises the same errors as
    `first_published_from`.
    """

    async def of_lane(lane: Lane) -> tuple[ReadPosition, ReadPosition]:
        find = partial(first_published_from, directory, options, lane, chains[lane])
        start, end = bounds[lane]
        if options.starting_ms >= 0:
            start = await find(options.starting_ms)
        if options.ending_ms >= 0:
            after = await find(options.ending_ms + 1)
            end = (
                after
                if after == LATEST
                else after._replace(entry_id=after.entry_id - 1, slot=WHOLE)
            )
        return start, end

    return dict(zip(bounds, await asyncio.gather(*map(of_lane, bounds)), strict=True))


def named_ids(name: str, bound: Bound, options: Options, chains: Chains) -> dict[Lane, MessageId]:
    """Return an option's id for each lane that has one.

    Raises `OptionError` if an id does not belong to any lane, and `LedgerGoneError` if its ledger
    does not exist, unless option `failOnDataLoss` is false.
    """
    if isinstance(bound, str):
        return {}
    if options.ledgers:
        # The id applies to all lanes.
        if options.fail_on_data_loss:
            _check_ledger(name, bound[0], [lane.number for lane in chains])
        return dict.fromkeys(chains, bound[0])
    [topic] = options.topics
    ids = {Lane(topic, message_id.partition): message_id for message_id in bound}
    for lane, message_id in ids.items():
        if lane not in chains:
            raise OptionError(
                f"option '{name}': {message_id} refers to partition {message_id.partition}, but"
                f" topic {topic} has {_partitions([each.number for each in chains])}"
            )
        if options.fail_on_data_loss:
            _check_ledger(name, message_id, [info.ledger_id for info in chains[lane]])
    return ids


def check_readable(bounds: Bounds, ledgers: Iterable[tuple[Lane, LedgerSnapshot]]) -> None:
    """Raise `OptionError` if a lane's last position is past its ledger's last readable entry."""
    for lane, ledger in ledgers:
        end = bounds[lane][1]
        if end.ledger_id != ledger.ledger_id or end.entry_id <= ledger.last_entry_id:
            continue
        readable = f"0 to {ledger.last_entry_id}" if ledger.last_entry_id >= 0 else "none"
        raise OptionError(
            f"option 'end': entry {end.entry_id} of ledger {ledger.ledger_id} cannot be read;"
            f" readable entries: {readable}. The newest entry of an open ledger becomes readable"
            " when another entry follows it or its writer announces it (explicitLacInterval)"
        )


def check_ranges(options: Options, chains: Chains) -> None:
    """Raise `LedgerGoneError` if a ledger of a closed range such as '3-7' does not exist."""
    ids = sorted(lane.number for lane in chains)
    for first, last in options.ledgers:
        found = ids[bisect_left(ids, first) : bisect_right(ids, last)]
        if last == NO_END or len(found) == last - first + 1:
            continue
        existing = [*found, last + 1]
        missing = next(id_ for id_, each in enumerate(existing, first) if id_ != each)
        raise LedgerGoneError(
            f"option 'ledgers': only {len(found)} of the ledgers {first}-{last} exist; {missing} is"
            " the first one that was deleted or never created. List only existing ledgers, or set"
            f" option 'failOnDataLoss' to 'false'; '{first}-' reads every existing ledger from"
            f" {first} on"
        )


def _check_ledger(name: str, message_id: MessageId, existing: list[int]) -> None:
    if message_id.ledger_id not in existing:
        remaining = (
            f"existing ledgers: {existing[0]} to {existing[-1]}"
            if existing
            else "no ledgers are left"
        )
        raise LedgerGoneError(
            f"option '{name}': ledger {message_id.ledger_id} of {message_id} does not exist;"
            f" {remaining}. It was deleted or trimmed from its topic, so this query cannot read its"
            " messages. Keep ledgers longer (with retention or a subscription), or set option"
            " 'failOnDataLoss' to 'false' to read the remaining ledgers"
        )


def _partitions(lanes: list[int]) -> str:
    if lanes == [-1]:
        return "no partitions; use partition -1"
    return f"partitions 0 to {lanes[-1]}" if len(lanes) > 1 else f"only partition {lanes[0]}"
