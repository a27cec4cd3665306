"""Decides how far each batch of a stream reads, and which entries belong to it.

An offset never moves backwards and never goes beyond the last confirmed entry, and the rows between
two offsets are always the same. If a ledger was deleted before it was read to its end, the stream
fails, unless option `failOnDataLoss` is false. Because a deleted ledger does not reveal how many
entries it had, the stream also fails if it cannot rule out a loss.
"""

import asyncio
from bisect import bisect_left, bisect_right
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from operator import attrgetter

from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, ReadMaxRows

from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.views.spark.bookkeeper.backlog import Backlog, backlog
from labkit.views.spark.bookkeeper.bounds import named_ids
from labkit.views.spark.bookkeeper.counting import MessageCounter
from labkit.views.spark.bookkeeper.directory import Chains, LedgerDirectory, find_ledger
from labkit.views.spark.bookkeeper.offsets import (
    Offset,
    after_rows,
    before_first_entry,
    just_before,
    order,
)
from labkit.views.spark.bookkeeper.opening import LedgerGoneError
from labkit.views.spark.bookkeeper.options import Options
from labkit.views.spark.bookkeeper.spans import (
    LATEST,
    EntrySpan,
    Lane,
    LedgerSnapshot,
    ending_with,
    span_between,
    starting_after,
)
from labkit.views.spark.bookkeeper.times import first_published_from

_ledger_id = attrgetter("ledger_id")


class StreamFollower:
    def __init__(self, directory: LedgerDirectory, options: Options) -> None:
        self._directory = directory
        self._options = options
        self._counter = MessageCounter(directory, options)
        self._successors: dict[tuple[Lane, MessageId], int] = {}
        """Maps a lane and the last id of a finished ledger to the ledger that follows it."""
        self.seen: Offset = {}
        """The newest message of each lane when it was last looked up."""
        self.batch_entry_counts: dict[Lane, int] = {}
        """The number of entries in each lane up to the latest returned offset."""
        self.backlogs: dict[Lane, Backlog] = {}
        """The backlog of each lane after that offset."""

    async def initial(self) -> Offset:
        """Return the offset given by option `start` or `startingTime`. Raises the same errors as
        `named_ids` and `first_published_from`.
        """
        chains = await self._directory.chains()
        if self._options.start == "latest":
            return await self._newest_of(chains)
        if self._options.starting_ms >= 0:
            return await self._published_from(chains, self._options.starting_ms)
        ids = named_ids("start", self._options.start, self._options, chains)
        begins = (self._begin(lane, chain, ids.get(lane)) for lane, chain in chains.items())
        return dict(zip(chains, await asyncio.gather(*begins), strict=True))

    async def _published_from(self, chains: Chains, time_ms: int) -> Offset:
        """Return the offset just before the first message published at or after that time."""

        async def just_before_first(lane: Lane) -> MessageId:
            chain = chains[lane]
            at = await first_published_from(self._directory, self._options, lane, chain, time_ms)
            if at == LATEST:
                return await self._last(lane, chain)
            return just_before(MessageId(at.ledger_id, at.entry_id, lane.partition, -1))

        offsets = await asyncio.gather(*map(just_before_first, chains))
        return dict(zip(chains, offsets, strict=True))

    async def newest(self) -> Offset:
        return await self._newest_of(await self._directory.chains())

    async def next_offset(self, start: Offset, target: Offset | None, limit: ReadLimit) -> Offset:
        """Return the next offset, which is at most `target` and no further from `start` than the
        limit allows.

        Raises `LedgerGoneError` if ledgers were deleted before they were read, and any error raised
        by `LedgerDirectory.lookup`.
        """
        chains = await self._directory.chains()
        self._check_start(start, chains)
        ends = self.seen = await self._newest_of(chains)
        self._record_successors(start, ends, chains)
        if target is not None:
            ends = {lane: min(ends[lane], target[lane], key=order) for lane in ends.keys() & target}
        new = [lane for lane in ends if lane not in start]
        firsts = await asyncio.gather(*(self._first(lane, chains[lane]) for lane in new))
        begin = start | dict(zip(new, firsts, strict=True))
        # Never move backwards, even if fewer bookies report the newest entries this time.
        ends = {lane: max(end, begin[lane], key=order) for lane, end in ends.items()}
        if isinstance(limit, ReadMaxRows):
            ends = await self._limited_rows(chains, begin, ends, limit.max_rows)
        elif isinstance(limit, ReadMaxBytes):
            ends = await self._limited_bytes(chains, begin, ends, limit.max_bytes)
        self.backlogs.clear()
        for lane in self.seen.keys() & ends.keys():
            chain = await self._with_current_end(chains[lane])
            batch = backlog(chain, begin[lane], ends[lane])
            self.batch_entry_counts[lane] = batch.entry_count
            self.backlogs[lane] = backlog(chain, ends[lane], self.seen[lane])
        return {**start, **ends}

    async def spans(self, start: Offset, end: Offset) -> list[EntrySpan]:
        """Return the spans between two offsets. Raises the same errors as `next_offset`."""
        chains = await self._directory.chains()
        self._check_start(start, chains)
        self._check_end(start, end, chains)

        async def of_lane(lane: Lane) -> list[EntrySpan]:
            begin = start.get(lane, before_first_entry(lane.partition))
            return [each async for each in self._lane_spans(lane, chains[lane], begin, end[lane])]

        lanes = sorted(end.keys() & chains.keys())
        return [span for spans in await asyncio.gather(*map(of_lane, lanes)) for span in spans]

    # Ends of lanes

    async def _newest_of(self, chains: Chains) -> Offset:
        lanes = await asyncio.gather(*(self._last(lane, chain) for lane, chain in chains.items()))
        return dict(zip(chains, lanes, strict=True))

    async def _last(self, lane: Lane, chain: list[LedgerInfo]) -> MessageId:
        for info in reversed(chain):
            ledger = await self._directory.lookup(info)
            if ledger and ledger.last_entry_id >= 0:
                return MessageId(info.ledger_id, ledger.last_entry_id, lane.partition, -1)
        return before_first_entry(lane.partition)

    async def _with_current_end(self, chain: list[LedgerInfo]) -> list[LedgerInfo]:
        """Return the chain, with the current counts of readable entries and bytes in its last
        ledger.
        """
        ledger = await self._directory.lookup(chain[-1]) if chain else None
        if ledger is None:
            return chain
        count, size_bytes = ledger.last_entry_id + 1, ledger.length
        return [*chain[:-1], LedgerInfo(ledger.ledger_id, count, size_bytes)]

    async def _first(self, lane: Lane, chain: list[LedgerInfo]) -> MessageId:
        """Return the offset before all entries of the lane.

        The offset refers to a ledger only if that ledger has entries. An empty ledger can be
        deleted without losing anything, so its deletion must not make the stream fail.
        """
        for info in chain:
            ledger = await self._directory.lookup(info)
            if ledger and ledger.last_entry_id >= 0:
                return before_first_entry(lane.partition, info.ledger_id)
        return before_first_entry(lane.partition)

    async def _begin(self, lane: Lane, chain: list[LedgerInfo], at: MessageId | None) -> MessageId:
        """Return the offset just before the message in option `start`.

        In a query over ledgers, later ledgers are read from their first entry, whereas only new
        entries are read from earlier ledgers.
        """
        if at is None or (self._options.ledgers and lane.number > at.ledger_id):
            return await self._first(lane, chain)
        if self._options.ledgers and lane.number < at.ledger_id:
            return await self._last(lane, chain)
        return just_before(at)

    async def _lane_spans(
        self, lane: Lane, chain: list[LedgerInfo], begin: MessageId, end: MessageId
    ) -> AsyncGenerator[EntrySpan, None]:
        first, last = starting_after(begin), ending_with(end)
        begin_index = bisect_left(chain, first.ledger_id, key=_ledger_id)
        end_index = bisect_right(chain, last.ledger_id, key=_ledger_id)
        for info in chain[begin_index:end_index]:
            ledger = await self._directory.lookup(info)
            span = ledger and span_between(_extended_to(ledger, end), lane, first, last)
            if span:
                yield span

    # Limiting a batch to a number of rows or bytes

    async def _limited_rows(
        self, chains: Chains, begin: Offset, ends: Offset, max_rows: int
    ) -> Offset:
        """Return the offset after at most `max_rows` further rows, shared equally among the lanes
        with unread rows.
        """
        offset, rows_left = dict(begin), max_rows
        behind = [lane for lane in sorted(ends) if offset[lane] != ends[lane]]
        while rows_left and behind:
            share = max(rows_left // len(behind), 1)
            lanes, finished = behind[:rows_left], set()
            steps = (
                self._advance_rows(lane, chains[lane], offset[lane], ends[lane], share)
                for lane in lanes
            )
            for lane, (at, row_count) in zip(lanes, await asyncio.gather(*steps), strict=True):
                if at == ends[lane] or not row_count:
                    finished.add(lane)
                offset[lane], rows_left = at, rows_left - row_count
            behind = [lane for lane in behind if lane not in finished]
        return offset

    async def _limited_bytes(
        self, chains: Chains, begin: Offset, ends: Offset, max_bytes: int
    ) -> Offset:
        """Return the offset after about `max_bytes` further bytes, shared equally among the lanes
        with unread entries.

        Each of these lanes reads at least one entry, so none has to wait for the others.
        """
        sizes = {
            lane: backlog(await self._with_current_end(chains[lane]), begin[lane], end).size_bytes
            for lane, end in ends.items()
            if begin[lane] != end
        }
        offset, bytes_left = dict(begin), max_bytes
        # Bytes that a lane with a small backlog does not need are available to the others.
        for index, lane in enumerate(sorted(sizes, key=lambda each: (sizes[each], each))):
            share = bytes_left // (len(sizes) - index)
            offset[lane], size_bytes = await self._advance_bytes(
                lane, chains[lane], begin[lane], ends[lane], share
            )
            bytes_left -= size_bytes
        return offset

    async def _advance_bytes(
        self, lane: Lane, chain: list[LedgerInfo], begin: MessageId, end: MessageId, max_bytes: int
    ) -> tuple[MessageId, int]:
        """Advance by about `max_bytes`, but by at least one entry. Return the new offset and the
        number of bytes up to it.
        """
        at, size_bytes = begin, 0
        async with aclosing(self._lane_spans(lane, chain, begin, end)) as spans:
            async for span in spans:
                count = (max_bytes - size_bytes) // span.bytes_per_entry
                if at == begin:
                    count = max(count, 1)
                if count <= 0:
                    return at, size_bytes
                part = span.part(span.first, span.first + count - 1)
                size_bytes += part.size_bytes
                at = MessageId(span.ledger.ledger_id, part.last, lane.partition, -1)
                if part.last < span.last:
                    return at, size_bytes
        return end, size_bytes

    async def _advance_rows(
        self, lane: Lane, chain: list[LedgerInfo], begin: MessageId, end: MessageId, max_rows: int
    ) -> tuple[MessageId, int]:
        row_count = 0
        async with aclosing(self._lane_spans(lane, chain, begin, end)) as spans:
            async for span in spans:
                if row_count == max_rows:
                    return before_first_entry(begin.partition, span.ledger.ledger_id), row_count
                # Every entry contains at least one message, so `max_rows` entries are enough.
                part = span.part(span.first, span.first + max_rows - row_count - 1)
                sizes = await self._counter.counts(part, max_rows - row_count)
                if not sizes:
                    continue
                begin, count = after_rows(part, sizes, max_rows - row_count)
                row_count += count
                if begin.entry_id < span.last or begin.batch_index >= 0:
                    return begin, row_count
        return end if row_count < max_rows else begin, row_count

    # Lost entries

    def _check_start(self, start: Offset, chains: Chains) -> None:
        for lane, at in start.items():
            chain = chains.get(lane, [])
            if at.ledger_id < 0 or find_ledger(chain, at.ledger_id) is not None:
                continue
            # If the ledger was read to its end and its successor still exists, nothing is lost.
            successor = self._successors.get((lane, at))
            if successor is None or find_ledger(chain, successor) is None:
                self._report_loss(lane, f"ledger {at.ledger_id} (last message read: {at})")

    def _check_end(self, start: Offset, end: Offset, chains: Chains) -> None:
        for lane, at in end.items():
            is_gone = find_ledger(chains.get(lane, []), at.ledger_id) is None
            if at.ledger_id >= 0 and is_gone and at != start.get(lane):
                self._report_loss(lane, f"ledger {at.ledger_id} (to be read up to {at})")

    def _report_loss(self, lane: Lane, ledger: str) -> None:
        if not self._options.fail_on_data_loss:
            return
        source = f"partition {lane.number} of {lane.topic}" if lane.topic else "the ledgers"
        raise LedgerGoneError(
            f"{ledger} no longer exists, so this stream may have missed entries of {source}: it was"
            " deleted or trimmed from its topic. Keep ledgers longer (with retention or a"
            " subscription); to continue with the remaining ledgers, set option 'failOnDataLoss' to"
            " 'false'"
        )

    def _record_successors(self, start: Offset, newest: Offset, chains: Chains) -> None:
        """Record the successors of finished ledgers before those ledgers are deleted."""
        old = self._successors.items()
        self._successors = {key: ledger for key, ledger in old if start.get(key[0]) == key[1]}
        for lane, at in newest.items():
            chain = chains[lane]
            index = find_ledger(chain, at.ledger_id)
            if index is not None and index + 1 < len(chain):
                self._successors[lane, at] = chain[index + 1].ledger_id


def _extended_to(ledger: LedgerSnapshot, end: MessageId) -> LedgerSnapshot:
    """Return the ledger, extended if necessary to include the entries up to `end`. These entries
    are confirmed, because no offset goes beyond the last confirmed entry.

    When a batch is repeated, the ledger may seem shorter than before, either because of option
    `closedOnly`, or because bookies have lost a LastAddConfirmed that was not on disk.
    """
    if ledger.ledger_id != end.ledger_id or ledger.last_entry_id >= end.entry_id:
        return ledger
    return replace(ledger, last_entry_id=end.entry_id)
