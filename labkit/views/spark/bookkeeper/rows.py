"""Unpacks the entries of a span into rows for a record batch.

For a topic, a row is a message; for ledgers, a row is an entry.
"""

import struct
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from labkit.system.client.striping import write_set
from labkit.system.model.entry import Entry
from labkit.system.model.errors import LabkitError
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.proto.pulsar_pb2 import (
    CompressionType,
    MessageMetadata,
    SingleMessageMetadata,
)
from labkit.system.topic.compression import DecompressionError, decompress_payload
from labkit.system.topic.messages import split_entry
from labkit.views.spark.bookkeeper.spans import WHOLE, EntrySpan
from labkit.views.spark.bookkeeper.values import ValueDecoder

Numbers = npt.NDArray[np.int64]

_SIZE = struct.Struct(">I")
_NOT_BATCHED = -1
_PAYLOADS = {"payload", "value"}
_PER_MESSAGE = {"event_time", "sequence_id", "key", "properties", *_PAYLOADS}
"""Columns that differ between the messages of a batch, and are stored in the batch's payload."""


def signed(numbers: Sequence[int]) -> Numbers:
    """Reinterpret unsigned 64-bit fields as signed, as Java does."""
    return np.array(numbers, np.uint64).view(np.int64)


class PayloadError(LabkitError):
    """The payload of an entry is encrypted or damaged."""


class SpanRows:
    """The rows of a span that have been read since the last record batch."""

    def __init__(
        self,
        span: EntrySpan,
        metadata: LedgerMetadata,
        columns: Collection[str],
        decoder: ValueDecoder | None = None,
    ) -> None:
        """If the span's lane does not belong to a topic, each row is an entry.

        Only the data that the columns need is unpacked and kept, so unencrypted columns of an
        encrypted topic can be read without its key.
        """
        self.span = span
        self._ledger = metadata
        self.decoder = decoder or ValueDecoder({})
        # Payloads make up most of the bytes, so copy them only if a column needs them.
        self._with_payloads = not _PAYLOADS.isdisjoint(columns)
        self._with_heads = not _PER_MESSAGE.isdisjoint(columns)
        self.count = 0
        """The number of rows."""
        self.size_bytes = 0
        self.has_chunks = False
        self.entries: list[Entry] = []
        self.counts: list[int] = []
        self._first_slots: list[int] = []
        """For each entry: its number of rows, and the batch index of its first row."""
        self.metadata: list[MessageMetadata] = []
        self.heads: list[MessageMetadata | SingleMessageMetadata] = []
        self.payloads: list[bytes | None] = []
        """For each row: its metadata and its payload; empty if no column needs them."""

    def add(self, entry: Entry) -> None:
        span = self.span
        skip = span.skip if entry.entry_id == span.first else 0
        stop = span.stop if entry.entry_id == span.last else WHOLE
        before = self.count
        size_bytes = len(entry.payload)
        if self.span.lane.topic:
            size_bytes = max(size_bytes, self._add_messages(entry, skip, stop))
        else:
            self.payloads.append(entry.payload)
            self.count += 1
        self.entries.append(entry)
        self.counts.append(self.count - before)
        self.size_bytes += size_bytes

    def _add_messages(self, entry: Entry, skip: int, stop: int) -> int:
        """Add the entry's messages; return the size of the unpacked payload."""
        ids = entry.ledger_id, entry.entry_id
        metadata, payload = split_entry(entry.payload, *ids)
        is_batch = metadata.HasField("num_messages_in_batch")
        # Message metadata is encrypted only in batches.
        if self._with_payloads or (is_batch and self._with_heads):
            payload = _plain_payload(metadata, payload, *ids)
        self.metadata.append(metadata)
        if not is_batch:
            self._first_slots.append(_NOT_BATCHED)
            self.has_chunks |= metadata.HasField("chunk_id")
            self.heads.append(metadata)
            if self._with_payloads:
                self.payloads.append(None if metadata.null_value else payload)
            self.count += 1
            return len(payload)
        self._first_slots.append(skip)
        size = metadata.num_messages_in_batch
        stop = size if stop == WHOLE else min(stop, size)
        if self._with_heads:
            self._add_batch(payload, skip, stop)
        self.count += max(stop - skip, 0)
        return len(payload)

    def _add_batch(self, batch: bytes, skip: int, stop: int) -> None:
        """Unpack the batch. The speed of this loop determines how fast a topic is read."""
        # Use local names, because attribute lookups would cost time for every message.
        size_at, parse = _SIZE.unpack_from, SingleMessageMetadata.FromString
        heads, payloads, with_payloads = self.heads, self.payloads, self._with_payloads
        at = 0
        for slot in range(stop):
            start = at + 4
            end = start + size_at(batch, at)[0]
            head = parse(batch[start:end])
            size = head.payload_size
            at = end + size
            # Skipped messages must be parsed as well, to find where the next message starts.
            if slot < skip:
                continue
            heads.append(head)
            if with_payloads:
                payloads.append(batch[end:at] if size or not head.null_value else None)

    # Values for columns, one per row

    def entry_of_row(self) -> Numbers:
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def repeated(self, numbers: Sequence[int] | Numbers) -> Numbers:
        return np.repeat(np.array(numbers, np.int64), self.counts)

    def entry_ids(self) -> Numbers:
        return self.repeated([entry.entry_id for entry in self.entries])

    def publish_times_ms(self) -> Numbers:
        return self.repeated(signed([metadata.publish_time for metadata in self.metadata]))

    def batch_indexes(self) -> Numbers:
        """Return each row's batch index, or -1 for a message that was not batched."""
        counts = np.array(self.counts)
        starts = self.repeated(np.cumsum(counts) - counts)
        firsts = self.repeated(self._first_slots)
        return np.where(firsts < 0, _NOT_BATCHED, np.arange(self.count) - starts + firsts)

    def segments(self) -> Numbers:
        """Return the index of the ensemble on which each row is stored."""
        firsts = [segment.first_entry_id for segment in self._ledger.segments]
        return np.searchsorted(firsts, self.entry_ids(), side="right") - 1

    def ensembles(self) -> list[tuple[str, ...]]:
        return [segment.ensemble for segment in self._ledger.segments]

    def write_sets(self) -> list[list[str]]:
        """Return the write sets of entries 0 to E - 1 for each ensemble; later write sets repeat
        these.
        """
        sizes = self._ledger.ensemble_size, self._ledger.write_quorum
        return [
            [ensemble[index] for index in write_set(entry_id, *sizes)]
            for ensemble in self.ensembles()
            for entry_id in range(self._ledger.ensemble_size)
        ]


def _plain_payload(
    metadata: MessageMetadata, payload: bytes, ledger_id: int, entry_id: int
) -> bytes:
    """Return the decompressed payload of an entry; a batch is compressed as a whole.

    Chunks are returned as stored, because the client compresses a large message before it splits
    it. Raises `PayloadError` if the payload is encrypted or damaged.
    """
    if metadata.HasField("encryption_param") or metadata.HasField("encryption_algo"):
        raise PayloadError(
            f"entry {entry_id} of ledger {ledger_id} is encrypted, and only the topic's consumers"
            " have the key. To read the columns that need no key, pass a schema with only those,"
            " such as .schema('ledger long, entry long, batch_index int'); to read the payloads as"
            " stored, use option 'ledgers' instead of 'topic'"
        )
    if not metadata.compression or metadata.HasField("chunk_id"):
        return payload
    try:
        return decompress_payload(metadata.compression, payload, metadata.uncompressed_size)
    except DecompressionError as error:
        kind = CompressionType.Name(metadata.compression)
        raise PayloadError(
            f"cannot decompress entry {entry_id} of ledger {ledger_id} ({kind}): {error}"
        ) from None
