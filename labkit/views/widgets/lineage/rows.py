"""The rows of boxes above the bytes in the lineage of a message. One box of each row is chosen.

Starting with the topic, each row shows the contents of the box chosen in the row above.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.system.model.layout import Span
from labkit.system.model.ledger import LedgerState
from labkit.views.widgets.drawing.kin import entry_kin, ledger_kin, node_kin
from labkit.views.widgets.drawing.plurals import counted, quorum_words
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.message_location import Lineage

PARTITION, LEDGER, ENTRY, BATCH, BOOKIE = "partition", "ledger", "entry", "batch", "bookie"
MAX_BOXES = 7

HEADER, FRAME, METADATA, OWN, PAYLOAD, REST = (
    "header",
    "frame",
    "metadata",
    "own",
    "payload",
    "rest",
)
LEGEND = {
    HEADER: "BookKeeper header and digest",
    FRAME: "Pulsar frame",
    METADATA: "entry metadata",
    OWN: "this message's metadata",
    PAYLOAD: "this message's payload",
    REST: "rest of the batch",
}
"""The legend for bytes that belong to none of the id's numbers."""
_IDS = {"ledger id": LEDGER, "entry id": ENTRY}
_HEADERS = ("length", "last add confirmed", "digest")
_FRAMES = ("broker magic", "broker metadata size", "magic", "checksum", "metadata size")


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a row.

    small: the lines below the title.
    words: the description.
    kin: what the box represents; all marks that represent the same thing are highlighted together.
    copy: the index of the copy in `Lineage.copies` if the box is a bookie with a copy, or else -1.
    """

    title: str
    small: tuple[str, ...]
    words: str
    kin: str
    is_chosen: bool = False
    is_dashed: bool = False
    copy: int = -1


@dataclass(frozen=True, slots=True)
class BoxRow:
    """A row of boxes. `before` and `after` are the numbers of boxes omitted on the left and on the
    right.
    """

    part: str
    label: str
    note: str
    boxes: tuple[Box, ...]
    before: int = 0
    after: int = 0


def id_boxes(lineage: Lineage) -> list[tuple[str, str, str, str]]:
    it = lineage.message_id
    partition = "from the topic name" if it.partition >= 0 else "topic is not partitioned"
    batch = "index within the batch" if it.batch_index >= 0 else "the whole entry"
    return [
        (LEDGER, str(it.ledger_id), "ledger id", "from the metadata store"),
        (ENTRY, str(it.entry_id), "entry id", "assigned by the writer"),
        (PARTITION, str(it.partition), "partition", partition),
        (BATCH, str(it.batch_index), "batch index", batch),
    ]


def rows_of(lineage: Lineage) -> list[BoxRow]:
    return [
        _partitions(lineage),
        _ledgers(lineage),
        _entries(lineage),
        _messages(lineage),
        _bookies(lineage),
    ]


def _partitions(lineage: Lineage) -> BoxRow:
    chosen, topic = lineage.message_id.partition, lineage.topic
    if not lineage.partition_count:
        words = f"{topic} is not partitioned: one chain of ledgers, and partition -1 in every id"
        return BoxRow(
            PARTITION, "topic", topic, (Box("not partitioned", (), words, PARTITION, True),)
        )
    whole = topic.removesuffix(f"-partition-{chosen}")
    boxes = [
        Box(
            f"partition {number}",
            (),
            f"{whole}-partition-{number}: a separate topic, with separate ledgers",
            f"{PARTITION}-{number}",
            number == chosen,
        )
        for number in range(lineage.partition_count)
    ]
    return _windowed(PARTITION, "topic", whole, boxes)


def _ledgers(lineage: Lineage) -> BoxRow:
    it = lineage.message_id
    boxes = []
    for place, link in enumerate(lineage.chain):
        count = link.entry_count
        state = "open" if count is None else counted(count, "entry", "entries")
        words = f"ledger {link.ledger_id}, number {place + 1} of {len(lineage.chain)} in the chain"
        words += (
            ": open, receives new entries" if count is None else ": closed, never changes again"
        )
        chosen = link.ledger_id == it.ledger_id
        kin = ledger_kin(link.ledger_id)
        boxes.append(Box(f"ledger {link.ledger_id}", (state,), words, kin, chosen, count is None))
    if not any(box.is_chosen for box in boxes):
        words = f"ledger {it.ledger_id}: no longer in the chain, because the topic has dropped it"
        name, kin = f"ledger {it.ledger_id}", ledger_kin(it.ledger_id)
        boxes.insert(0, Box(name, ("dropped",), words, kin, is_chosen=True, is_dashed=True))
    label = "ledger chain" if it.partition < 0 else f"partition {it.partition}"
    note = "one ledger after the other; ids increase along the chain, with gaps"
    return _windowed(LEDGER, label, note, boxes)


def _entries(lineage: Lineage) -> BoxRow:
    it, metadata = lineage.message_id, lineage.metadata
    first = next(
        s.first_entry_id for s in reversed(metadata.segments) if s.first_entry_id <= it.entry_id
    )
    sizes = quorum_words(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
    fragment = ", ".join(metadata.ensemble_at(it.entry_id))
    state = "open" if metadata.state is LedgerState.OPEN else metadata.state.name.lower()
    note = f"{state.replace('_', ' ')}: {sizes}; the ensemble from entry {first} on is {fragment}"
    boxes = [
        Box(
            f"entry {number}",
            (),
            f"entry {number} of ledger {it.ledger_id}: added by the broker in one request",
            entry_kin(it.ledger_id, number),
            number == it.entry_id,
        )
        for number in range(lineage.last_entry_id + 1)
    ]
    return _windowed(ENTRY, f"ledger {it.ledger_id}", note, boxes)


def _messages(lineage: Lineage) -> BoxRow:
    it, size = lineage.message_id, lineage.batch_size
    label = f"entry {it.entry_id}"
    if not size:
        words = "a single message without a batch, so the batch index is -1"
        return BoxRow(BATCH, label, words, (Box("the whole entry", (), words, BATCH, True),))
    note = f"a batch of {size}: one entry, one receipt, one copy on each bookie of the write set"
    boxes = [
        Box(
            str(number),
            (),
            f"message {number} of the batch: {it.ledger_id}:{it.entry_id}:{it.partition}:{number}",
            f"{BATCH}-{number}",
            it.batch_index in (number, -1),
        )
        for number in range(size)
    ]
    return _windowed(BATCH, label, note, boxes)


def _bookies(lineage: Lineage) -> BoxRow:
    it, metadata = lineage.message_id, lineage.metadata
    ensemble = metadata.ensemble_at(it.entry_id)
    copies = {copy.bookie: place for place, copy in enumerate(lineage.copies)}
    boxes = []
    for place, bookie in enumerate(ensemble):
        at = copies.get(bookie, -1)
        if at < 0:
            words = f"{bookie} has index {place} in the ensemble, but is not in this write set"
            outside = ("not in the write set",)
            boxes.append(Box(bookie, outside, words, node_kin(bookie), is_dashed=True))
            continue
        piece = lineage.copies[at].piece
        is_there = bool(piece.data)
        where = piece.file.rpartition("/")[2], f"@ {piece.offset:,}"
        small = where if is_there else (piece.absent,)
        boxes.append(
            Box(
                bookie, small, copy_words(lineage, at), node_kin(bookie), is_there, not is_there, at
            )
        )
    size, first = metadata.ensemble_size, ensemble[it.entry_id % metadata.ensemble_size]
    note = (
        f"the entry is stored on {metadata.write_quorum} of {counted(size, 'bookie')}:"
        f" {it.entry_id} mod {size} = {it.entry_id % size}, so they start with {first}"
    )
    return BoxRow(BOOKIE, "write set", note, tuple(boxes))


def copy_words(lineage: Lineage, at: int) -> str:
    copy, it = lineage.copies[at], lineage.message_id
    piece, place = copy.piece, lineage.metadata.ensemble_at(it.entry_id).index(copy.bookie)
    where = f"{piece.file}, offset {piece.offset:,}" if piece.data else piece.absent
    return f"{copy.bookie}, index {place} in the ensemble: {where}"


def _windowed(part: str, label: str, note: str, boxes: Sequence[Box]) -> BoxRow:
    """Return a row with as many boxes as fit, with the first chosen box near the middle."""
    chosen = next((place for place, box in enumerate(boxes) if box.is_chosen), 0)
    start = max(0, min(chosen - MAX_BOXES // 2, len(boxes) - MAX_BOXES))
    shown = tuple(boxes[start : start + MAX_BOXES])
    return BoxRow(part, label, note, shown, start, len(boxes) - start - len(shown))


def legend_of(lineage: Lineage) -> list[str]:
    """Return the items of the legend, which are fewer if the message is not in a batch."""
    in_batch = lineage.batch_size > 1 and lineage.message_id.batch_index >= 0
    return [each for each in LEGEND if in_batch or each not in (OWN, REST)]


def belongs_to(lineage: Lineage, piece: Piece, span: Span) -> str:
    """Return the part of the id, or the item of `LEGEND`, to which this field of a copy
    corresponds.
    """
    at = span.offset - piece.offset
    if lineage.offset <= at < lineage.offset + lineage.size:
        return PAYLOAD if span.name == "payload" else OWN
    if span.name.startswith("message"):
        return REST
    if span.name in _IDS:
        return _IDS[span.name]
    if span.name in _HEADERS:
        return HEADER
    return FRAME if span.name in _FRAMES else METADATA
