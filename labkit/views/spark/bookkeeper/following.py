"""A stream's progress: which entries are new, how many to read now, and their ledgers.

The rules: an offset never goes back; it never passes the last confirmed entry; and the rows between
two offsets are always the same.  A ledger that was deleted before it was read is reported, as far
as this can be known: a deleted ledger does not show whether it had more entries.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.chain import LedgerInfo
from labkit.system.topic.messages import decode_metadata
from labkit.views.spark.bookkeeper.bounds import named_ids
from labkit.views.spark.bookkeeper.directory import (
    AT_ONCE,
    Chains,
    LedgerDirectory,
    LedgerGoneError,
)
from labkit.views.spark.bookkeeper.entries import read_span
from labkit.views.spark.bookkeeper.offsets import (
    Offset,
    after_rows,
    earlier,
    just_before,
    later,
    nothing_of,
)
from labkit.views.spark.bookkeeper.options import Options
from labkit.views.spark.bookkeeper.spans import (
    EntrySpan,
    beginning_behind,
    ending_with,
    span_between,
)


class StreamFollower:
    """Follows the lanes of a stream; it lives as long as the query runs."""

    def __init__(self, directory: LedgerDirectory, options: Options) -> None:
        self._directory = directory
        self._options = options
        self._successors: dict[tuple[int, MessageId], int] = {}
        """The ledger after an id that ends a closed ledger, by lane and id."""
        self.seen: Offset = {}
        """The newest messages when they were last looked up."""

    async def initial(self) -> Offset:
        """The offset that option `start` names.  Raises `OptionError`."""
        chains = await self._directory.chains()
        if self._options.start == "latest":
            return await self._newest(chains)
        ids = named_ids("start", self._options.start, self._options, chains)
        begins = (self._begin(lane, chain, ids.get(lane)) for lane, chain in chains.items())
        return dict(zip(chains, await asyncio.gather(*begins), strict=True))

    async def newest(self) -> Offset:
        """The last confirmed message of each lane."""
        return await self._newest(await self._directory.chains())

    async def next_offset(
        self, start: Offset, target: Offset | None, max_rows: int | None
    ) -> Offset:
        """The next offset after `start`: confirmed, at most `target`, at most `max_rows` rows on.

        Raises `LedgerGoneError` if ledgers were deleted before they were read, and what
        `LedgerDirectory.known` raises.
        """
        chains = await self._directory.chains()
        self._check_start(start, chains)
        ends = self.seen = await self._newest(chains)
        self._learn_successors(start, ends, chains)
        if target is not None:
            ends = {lane: earlier(ends[lane], target[lane]) for lane in ends.keys() & target}
        new = [lane for lane in ends if lane not in start]
        firsts = await asyncio.gather(*(self._first(lane, chains[lane]) for lane in new))
        begin = start | dict(zip(new, firsts, strict=True))
        # An offset never goes back, even if fewer bookies report the newest entries now.
        ends = {lane: later(end, begin[lane]) for lane, end in ends.items()}
        if max_rows is not None:
            ends = await self._limited(chains, begin, ends, max_rows)
        return {**start, **ends}

    async def spans(self, start: Offset, end: Offset) -> list[EntrySpan]:
        """The spans between two offsets.  Raises as `next_offset`."""
        chains = await self._directory.chains()
        self._check_start(start, chains)
        self._check_end(start, end, chains)

        async def of_lane(lane: int) -> list[EntrySpan]:
            begin = start.get(lane, nothing_of(lane))
            return [each async for each in self._lane_spans(lane, chains[lane], begin, end[lane])]

        lanes = sorted(end.keys() & chains.keys())
        return [span for spans in await asyncio.gather(*map(of_lane, lanes)) for span in spans]

    # Ends

    async def _newest(self, chains: Chains) -> Offset:
        lanes = await asyncio.gather(*(self._last(lane, chain) for lane, chain in chains.items()))
        return dict(zip(chains, lanes, strict=True))

    async def _last(self, lane: int, chain: list[LedgerInfo]) -> MessageId:
        for info in reversed(chain):
            ledger = await self._directory.known(info)
            if ledger and ledger.last_entry_id >= 0:
                return MessageId(info.ledger_id, ledger.last_entry_id, self._partition(lane), -1)
        return nothing_of(self._partition(lane))

    async def _first(self, lane: int, chain: list[LedgerInfo]) -> MessageId:
        """The offset before all entries of the lane.  It names a ledger only if that has entries:
        an empty one may be deleted without a loss.
        """
        for info in chain:
            ledger = await self._directory.known(info)
            if ledger and ledger.last_entry_id >= 0:
                return nothing_of(self._partition(lane), info.ledger_id)
        return nothing_of(self._partition(lane))

    async def _begin(self, lane: int, chain: list[LedgerInfo], at: MessageId | None) -> MessageId:
        """The offset just before the message that option `start` names.  In a query over ledgers,
        those before the message's ledger contribute only new entries, and those after it all
        entries.
        """
        if at is None or (not self._options.topic and lane > at.ledger_id):
            return await self._first(lane, chain)
        if not self._options.topic and lane < at.ledger_id:
            return await self._last(lane, chain)
        return just_before(at)

    async def _lane_spans(
        self, lane: int, chain: list[LedgerInfo], begin: MessageId, end: MessageId
    ) -> AsyncGenerator[EntrySpan, None]:
        """The spans between two offsets of a lane.  Ledgers are looked up a few at a time: a batch
        of limited size needs only the first of perhaps thousands.
        """
        first, last = beginning_behind(begin), ending_with(end)
        infos = [i for i in chain if first.ledger_id <= i.ledger_id <= last.ledger_id]
        for at in range(0, len(infos), AT_ONCE):
            few = infos[at : at + AT_ONCE]
            for ledger in await asyncio.gather(*map(self._directory.known, few)):
                span = ledger and span_between(ledger, self._partition(lane), first, last)
                if span:
                    yield span

    def _partition(self, lane: int) -> int:
        return lane if self._options.topic else -1

    # Admission

    async def _limited(self, chains: Chains, begin: Offset, ends: Offset, max_rows: int) -> Offset:
        """The offset at most `max_rows` rows on; lanes get equal shares while they have rows."""
        offset, left = dict(begin), max_rows
        behind = [lane for lane in sorted(ends) if offset[lane] != ends[lane]]
        while left and behind:
            share = max(left // len(behind), 1)
            finished = set()
            for lane in behind[:left]:
                at, taken = await self._advance(lane, chains[lane], offset[lane], ends[lane], share)
                if at == ends[lane] or not taken:
                    finished.add(lane)
                offset[lane], left = at, left - taken
            behind = [lane for lane in behind if lane not in finished]
        return offset

    async def _advance(
        self, lane: int, chain: list[LedgerInfo], begin: MessageId, end: MessageId, max_rows: int
    ) -> tuple[MessageId, int]:
        """The offset after at most `max_rows` rows, and their number."""
        taken = 0
        async with aclosing(self._lane_spans(lane, chain, begin, end)) as spans:
            async for span in spans:
                if taken == max_rows:
                    return nothing_of(begin.partition, span.ledger.ledger_id), taken
                # Every entry has at least one message.
                part = span.part(span.first, span.first + max_rows - taken - 1)
                sizes = await self._sizes(part, max_rows - taken)
                begin, count = after_rows(part, sizes, max_rows - taken)
                taken += count
                if begin.entry_id < span.last or begin.batch_index >= 0:
                    return begin, taken
        return end if taken < max_rows else begin, taken

    async def _sizes(self, span: EntrySpan, max_rows: int) -> list[int]:
        """The numbers of messages in the first entries, for enough entries to reach `max_rows`."""
        if not self._options.topic:
            return [1] * (span.last - span.first + 1)
        sizes: list[int] = []
        client = self._directory.client
        async with aclosing(read_span(client, span, self._options.retry_s)) as portions:
            async for entries in portions:
                sizes += (decode_metadata(e.payload).num_messages_in_batch for e in entries)
                if sum(sizes) - span.skip >= max_rows:
                    break
        return sizes

    # What went unread

    def _check_start(self, start: Offset, chains: Chains) -> None:
        for lane, at in start.items():
            ids = [info.ledger_id for info in chains.get(lane, [])]
            if at.ledger_id < 0 or at.ledger_id in ids:
                continue
            # Deleted after it was read to its end: nothing is lost if its successor still exists.
            if self._successors.get((lane, at)) not in ids:
                self._report(lane, f"ledger {at.ledger_id}, of which {at} was read last,")

    def _check_end(self, start: Offset, end: Offset, chains: Chains) -> None:
        for lane, at in end.items():
            ids = [info.ledger_id for info in chains.get(lane, [])]
            if at.ledger_id >= 0 and at.ledger_id not in ids and at != start.get(lane):
                self._report(lane, f"ledger {at.ledger_id}, to be read up to {at},")

    def _report(self, lane: int, which: str) -> None:
        if not self._options.fail_on_data_loss:
            return
        what = f"partition {lane} of {self._options.topic}" if self._options.topic else "the stream"
        raise LedgerGoneError(
            f"{which} no longer exists, and entries of {what} may be lost to this stream: it was"
            " deleted, or trimmed from its topic. Keep ledgers longer (the topic's retention, or a"
            " subscription); to go on with what is left, set option 'failOnDataLoss' to 'false'"
        )

    def _learn_successors(self, start: Offset, newest: Offset, chains: Chains) -> None:
        """Note which ledger follows one read to its end, before that one may be deleted."""
        old = self._successors.items()
        self._successors = {key: ledger for key, ledger in old if start.get(key[0]) == key[1]}
        for lane, at in newest.items():
            ids = [info.ledger_id for info in chains[lane]]
            if at.ledger_id in ids[:-1]:
                self._successors[lane, at] = ids[ids.index(at.ledger_id) + 1]
