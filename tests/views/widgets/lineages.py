"""Lineages of messages, built from bytes that labkit's own encoders produce, without a cluster."""

from dataclasses import replace

from labkit.system.model.entry import ENTRY_HEADER, DigestType, make_digest, pack_entry
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.system.model.message_id import MessageId
from labkit.system.storage.entry_log import LOG_ENTRY_HEADER
from labkit.system.topic.messages import (
    OutgoingMessage,
    encode_batch,
    encode_in_batch,
    encode_message,
)
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.file_spans import framed_spans
from labkit.views.xray.message_location import ChainLink, EntryCopy, Lineage
from labkit.views.xray.message_spans import MessageFrame, parse_message

DIGEST = make_digest(DigestType.CRC32C, b"")
BEFORE_PAYLOAD = 4 + ENTRY_HEADER.size + DIGEST.size
TOPIC = "persistent://public/default/orders"
NOW_MS = 1_700_000_000_000


def in_a_batch() -> Lineage:
    """Return the lineage of the third of five messages in a batch.

    The batch is in the second of three ledgers of a partition; one bookie lacks the file.
    """
    messages = [OutgoingMessage(b"order %d" % n, "", 0, (), 40 + n) for n in range(5)]
    parts = [encode_in_batch(message) for message in messages]
    payload = encode_batch(messages[0], parts, "shop", NOW_MS)
    frame = parse_message(payload, 2)
    metadata = LedgerMetadata(
        *(4, 3, 2),
        (Segment(0, ("b0", "b1", "b2", "b3")),),
        state=LedgerState.CLOSED,
        last_entry_id=24,
    )
    copies = (
        EntryCopy("b1", _piece("b1, entry log", "0.log", 1432, 9, 13, payload, frame)),
        EntryCopy("b2", _piece("b2, journal", "18bcfe56801.txn", 9728, 9, 13, payload, frame)),
        EntryCopy("b3", Piece("b3", absent="not in its files")),
    )
    return Lineage(
        message_id=MessageId(9, 13, 1, 2),
        topic=f"{TOPIC}-partition-1",
        partition_count=3,
        chain=(ChainLink(4, 25), ChainLink(9, 25), ChainLink(11, None)),
        metadata=metadata,
        last_entry_id=24,
        batch_size=5,
        offset=BEFORE_PAYLOAD + frame.offset,
        size=frame.size,
        copies=copies,
    )


def alone() -> Lineage:
    """Return the lineage of an unbatched message in the first ledger of a non-partitioned topic."""
    payload = encode_message(OutgoingMessage(b"by itself", "key", 0, (), 0), "shop", NOW_MS)
    frame = parse_message(payload, -1)
    piece = _piece("b0, journal", "18bcfe56801.txn", 1024, 0, 0, payload, frame)
    return replace(
        in_a_batch(),
        message_id=MessageId(0, 0, -1, -1),
        topic=TOPIC,
        partition_count=0,
        chain=(ChainLink(0, None),),
        metadata=LedgerMetadata(1, 1, 1, (Segment(0, ("b0",)),)),
        last_entry_id=0,
        batch_size=0,
        offset=BEFORE_PAYLOAD + frame.offset,
        size=frame.size,
        copies=(EntryCopy("b0", piece),),
    )


def _piece(
    title: str, file: str, offset: int, ledger: int, entry: int, payload: bytes, frame: MessageFrame
) -> Piece:
    packed = pack_entry(ledger, entry, entry - 1, len(payload) * (entry + 1), payload, DIGEST)
    data = len(packed).to_bytes(4, "big") + packed
    *head, _ = framed_spans(LOG_ENTRY_HEADER, data, offset, DIGEST.size)
    begin = offset + BEFORE_PAYLOAD
    spans = (*head, *(replace(span, offset=begin + span.offset) for span in frame.spans))
    return Piece(title, file, offset, data, spans, len(data), offset + 4)
