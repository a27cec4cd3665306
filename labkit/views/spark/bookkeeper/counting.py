"""Counts the messages in each entry, for option `maxRowsPerTrigger`.

Only the entry itself contains its number of messages, so the driver has to read the entry. The
driver reads each entry only once, although it reads a chunk of entries at a time and a batch can
end within a chunk.
"""

from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from labkit.system.topic.messages import decode_metadata
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.entries import read_chunk
from labkit.views.spark.bookkeeper.opening import open_reader, report_loss
from labkit.views.spark.bookkeeper.options import Options
from labkit.views.spark.bookkeeper.spans import EntrySpan, Lane

Entry = tuple[int, int]
"""Ledger and entry."""


class MessageCounter:
    def __init__(self, directory: LedgerDirectory, options: Options) -> None:
        self._directory = directory
        self._options = options
        self._counts: dict[Lane, dict[Entry, int]] = {}
        """The counts that later batches still need."""

    async def counts(self, span: EntrySpan, max_rows: int) -> list[int]:
        """Return the number of messages in each of the span's first entries, up to `max_rows` in
        total.

        Return [] if the ledger does not exist and option `failOnDataLoss` is false. Raises
        `LedgerGoneError`, and any error raised by `read_chunk`.
        """
        if self._options.ledgers:
            return [1] * (span.last - span.first + 1)
        known = self._counts.setdefault(span.lane, {})
        found: list[int] = []
        row_count, at = -span.skip, (span.ledger.ledger_id, span.first)
        while row_count < max_rows and at[1] <= span.last:
            if at not in known:
                try:
                    known |= await self._read(span.part(at[1], span.last))
                except BKNoSuchLedgerExistsOnMetadataServerException:
                    report_loss(at[0], self._options)
                    return []
            found.append(known[at])
            row_count += known[at]
            last, at = at, (at[0], at[1] + 1)
        # The next batch may begin with the remaining messages of the last entry.
        self._counts[span.lane] = {each: known[each] for each in known if each >= last}
        return found

    async def _read(self, span: EntrySpan) -> dict[Entry, int]:
        """Return the number of messages in each of the span's first entries."""
        reader = await open_reader(self._directory.client, span.ledger, self._options)
        entries = await read_chunk(reader, span, self._options.retry_s)
        return {
            (each.ledger_id, each.entry_id): decode_metadata(each.payload).num_messages_in_batch
            for each in entries
        }
