"""Locates a message: given its MessageID, finds the file and the offset on each bookie.

The metadata store contains the topic partition that the ledger belongs to (in the custom metadata
that the broker sets), its position in the topic's chain of ledgers, and the bookies that store the
entry. Everything else is read from the bookies' files.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.striping import write_set
from labkit.system.metadata.store import NoNodeError
from labkit.system.model.entry import ENTRY_HEADER, make_digest
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.model.message_id import MessageId
from labkit.system.storage.entry_log import LOG_ENTRY_HEADER
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.names import (
    managed_ledger_path,
    partition_of,
    partitions_path,
    topic_of_managed_ledger,
)
from labkit.views.shell.cluster.records import describe_metadata
from labkit.views.shell.folders import BookieFolders, ShellError
from labkit.views.shell.ledgers import read_ledger
from labkit.views.shell.records import StoredEntry
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.file_spans import format_spans, framed_spans
from labkit.views.xray.message_location import ChainLink, EntryCopy, Lineage
from labkit.views.xray.message_spans import MessageFrame, parse_message

_TOPIC_KEY = "pulsar/managed-ledger"


async def find_lineage(
    client: BookKeeper, message_id: MessageId, folders: Mapping[str, BookieFolders]
) -> Lineage:
    """Locate the message; `folders` contains the directories of some or all bookies, keyed by
    bookie id.

    Raises `ShellError` or `BKIncorrectParameterException` if the message does not exist, and any
    error raised by `BookKeeper.open_ledger_no_recovery`.
    """
    reader = await client.open_ledger_no_recovery(message_id.ledger_id)
    metadata, entry_id = reader.metadata, message_id.entry_id
    topic = _topic_of(message_id, metadata)
    chain, _ = await read_chain(client, managed_ledger_path(topic))
    bookies = _write_set(entry_id, metadata)
    found = {
        bookie: _find_stored_entry(folders[bookie], message_id)
        for bookie in bookies
        if bookie in folders
    }
    stored = next(filter(None, found.values()), None)
    if stored is None:
        searched = f"the files of {', '.join(found)}" if found else "the given folders"
        raise ShellError(
            f"entry {entry_id} of ledger {message_id.ledger_id} is not in {searched};"
            f" its write set is {', '.join(bookies)}, and the ledger's LastAddConfirmed is"
            f" {reader.last_add_confirmed}"
        )
    payload_at = ENTRY_HEADER.size + make_digest(metadata.digest_type, metadata.password).size
    frame = parse_message(stored.data[payload_at:], message_id.batch_index)
    pieces = [
        _piece(bookie, found[bookie], payload_at, frame)
        if bookie in found
        else Piece(bookie, absent="its folder was not given")
        for bookie in bookies
    ]
    return Lineage(
        message_id=message_id,
        topic=topic,
        partition_count=await _partition_count(client, topic, message_id.partition),
        chain=tuple(
            ChainLink(i.ledger_id, i.entry_count if i.closed_at_ms else None) for i in chain
        ),
        metadata=metadata,
        # The LastAddConfirmed of an open ledger may not include the newest entries yet.
        last_entry_id=max(reader.last_add_confirmed, entry_id),
        batch_size=frame.message_count,
        offset=LENGTH_SIZE + payload_at + frame.offset,
        size=frame.size,
        copies=tuple(EntryCopy(*each) for each in zip(bookies, pieces, strict=True)),
    )


def _topic_of(message_id: MessageId, metadata: LedgerMetadata) -> str:
    """Return the topic partition in the ledger's metadata; it must match the MessageID."""
    stored = dict(metadata.custom_metadata).get(_TOPIC_KEY, b"").decode()
    if not stored:
        raise ShellError(
            f"ledger {message_id.ledger_id} does not belong to a topic: its metadata names none"
        )
    name = topic_of_managed_ledger(stored)
    partition = partition_of(name)
    if partition != message_id.partition:
        raise ShellError(
            f"ledger {message_id.ledger_id} belongs to {name}, so the partition in the id must be"
            f" {partition}, got {message_id.partition}"
        )
    return name


async def _partition_count(client: BookKeeper, topic: str, partition: int) -> int:
    if partition < 0:
        return 0
    try:
        data, _ = await client.store.get(
            partitions_path(topic.removesuffix(f"-partition-{partition}"))
        )
    except NoNodeError:
        # This is a non-partitioned topic whose name looks like a partition's name.
        return partition + 1
    count: int = json.loads(data)["partitions"]
    return count


def _write_set(entry_id: int, metadata: LedgerMetadata) -> list[str]:
    ensemble = metadata.ensemble_at(entry_id)
    indexes = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
    return [ensemble[index] for index in indexes]


def _find_stored_entry(folders: BookieFolders, message_id: MessageId) -> StoredEntry | None:
    entry_id = message_id.entry_id
    try:
        found = list(read_ledger(folders, message_id.ledger_id, entry_id, entry_id))
    except ShellError:  # The bookie has no entries of the ledger.
        return None
    return next((each for each in found if isinstance(each, StoredEntry)), None)


def _piece(bookie: str, stored: StoredEntry | None, payload_at: int, frame: MessageFrame) -> Piece:
    if stored is None:
        return Piece(bookie, absent="not in its files")
    data = stored.size.to_bytes(LENGTH_SIZE, "big") + stored.data
    begin = stored.offset + LENGTH_SIZE + payload_at
    digest_size = payload_at - ENTRY_HEADER.size
    *head, _ = framed_spans(LOG_ENTRY_HEADER, data, stored.offset, digest_size)
    spans = (replace(span, offset=begin + span.offset) for span in frame.spans)
    where = "journal" if stored.file.endswith(".txn") else "entry log"
    return Piece(
        f"{bookie}, {where}",
        stored.file,
        stored.offset,
        data,
        (*head, *spans),
        len(data),
        stored.offset + LENGTH_SIZE,
    )


def lineage_lines(value: Lineage, with_data: bool) -> Iterator[str]:
    """Yield the lines of a lineage's text; with `with_data`, also the fields decoded from the
    message's bytes.
    """
    message_id = value.message_id
    yield f"MessageID {message_id}"
    partition = (
        f", partition {message_id.partition} of {value.partition_count}"
        if message_id.partition >= 0
        else ""
    )
    yield f"topic: {value.topic}{partition}"
    links = (
        f"{link.ledger_id} ({'open' if link.entry_count is None else link.entry_count})"
        for link in value.chain
    )
    yield f"ledgers (with number of entries): {', '.join(links)}"
    yield f"ledger {message_id.ledger_id}: {describe_metadata(value.metadata)}"
    message = (
        "the whole entry"
        if message_id.batch_index < 0
        else f"message {message_id.batch_index} of 0 to {value.batch_size - 1}"
    )
    yield (
        f"entry {message_id.entry_id}: {message}, {value.size} bytes at offset {value.offset} of"
        " each copy"
    )
    for copy in value.copies:
        piece = copy.piece
        location = f"{piece.file}, offset {piece.offset}, {len(piece.data)} bytes"
        yield f"{copy.bookie}: {location if piece.data else piece.absent}"
    if with_data:
        yield format_spans(next(c.piece.spans for c in value.copies if c.piece.data))
