"""The first and the last place of each lane, from the options `start` and `end`.

For a topic, each partition may have an id; for ledgers, one id applies to all of them.

The rule: if the ledger of a bound does not exist, the query fails; with option `failOnDataLoss`
false it reads what is left.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.directory import Chains, LedgerGoneError
from labkit.views.spark.bookkeeper.options import NO_END, Bound, OptionError, Options
from labkit.views.spark.bookkeeper.spans import (
    EARLIEST,
    LATEST,
    KnownLedger,
    ReadPosition,
    beginning_at,
    ending_with,
)

Bounds = dict[int, tuple[ReadPosition, ReadPosition]]
"""First and last place of each lane."""


def places(options: Options, chains: Chains) -> Bounds:
    """The bounds of a batch query.

    Raises `OptionError` for an id of no lane, and `LedgerGoneError` for an id whose ledger does
    not exist.
    """
    if options.start == "latest":
        raise OptionError(
            "option 'start' is 'latest': nothing follows that, except in a stream; write 'earliest'"
            " or a MessageId"
        )
    starts = named_ids("start", options.start, options, chains)
    ends = named_ids("end", options.end, options, chains)
    return {
        lane: (
            beginning_at(starts[lane]) if lane in starts else EARLIEST,
            ending_with(ends[lane]) if lane in ends else LATEST,
        )
        for lane in chains
    }


def named_ids(name: str, bound: Bound, options: Options, chains: Chains) -> dict[int, MessageId]:
    """The ids of an option, by lane.

    Raises `OptionError` for an id of no lane, and `LedgerGoneError` for one whose ledger does
    not exist, unless option `failOnDataLoss` is false.
    """
    if isinstance(bound, str):
        return {}
    for message_id in bound:
        # Ledgers are lanes by their own ids, which the partition of an id (-1) does not name.
        if options.topic and message_id.partition not in chains:
            raise OptionError(
                f"option '{name}': {message_id} is of partition {message_id.partition}; topic"
                f" {options.topic} has {_partitions(list(chains))}"
            )
        if options.fail_on_data_loss:
            _check_ledger(name, message_id, options, chains)
    if not options.topic:
        return dict.fromkeys(chains, bound[0])
    return {message_id.partition: message_id for message_id in bound}


def check_readable(bounds: Bounds, ledgers: Iterable[tuple[int, KnownLedger]]) -> None:
    """Raises `OptionError` if the last place of a lane is beyond what can be read of its ledger."""
    for lane, ledger in ledgers:
        end = bounds[lane][1]
        if end.ledger_id != ledger.ledger_id or end.entry_id <= ledger.last_entry_id:
            continue
        readable = f"0 to {ledger.last_entry_id}" if ledger.last_entry_id >= 0 else "none"
        raise OptionError(
            f"option 'end': entry {end.entry_id} of ledger {ledger.ledger_id} cannot be read;"
            f" readable are {readable}. The newest entry of an open ledger can be read once another"
            " follows it or its writer has announced it (explicitLacInterval)"
        )


def check_ranges(options: Options, chains: Chains) -> None:
    """Check that all ledgers of each range with an end exist: a batch query needs them all.

    Raises `LedgerGoneError` for one that does not.
    """
    ids = sorted(chains)
    for first, last in options.ledgers:
        found = ids[bisect_left(ids, first) : bisect_right(ids, last)]
        if last == NO_END or len(found) == last - first + 1:
            continue
        there = [*found, last + 1]
        missing = next(id_ for id_, each in enumerate(there, first) if id_ != each)
        raise LedgerGoneError(
            f"option 'ledgers': of {first}-{last} there are only {len(found)} ledgers; {missing} is"
            " the first that was deleted or never made. Name those that are there, or set option"
            f" 'failOnDataLoss' to 'false'; '{first}-' reads all that are there from {first} on"
        )


def _check_ledger(name: str, message_id: MessageId, options: Options, chains: Chains) -> None:
    there = list(chains)
    if options.topic:
        there = [info.ledger_id for info in chains[message_id.partition]]
    if message_id.ledger_id not in there:
        left = f"left are ledgers {there[0]} to {there[-1]}" if there else "no ledger is left"
        raise LedgerGoneError(
            f"option '{name}': ledger {message_id.ledger_id} of {message_id} is not there; {left}."
            " It was deleted, or trimmed from its topic, and its messages are lost to this query:"
            " keep ledgers longer (the topic's retention, or a subscription); to read what is left,"
            " set option 'failOnDataLoss' to 'false'"
        )


def _partitions(lanes: list[int]) -> str:
    if lanes == [-1]:
        return "none, write -1"
    return f"0 to {lanes[-1]}" if len(lanes) > 1 else f"only {lanes[0]}"
