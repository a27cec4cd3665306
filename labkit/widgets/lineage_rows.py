"""What the lineage of a message shows above its bytes: rows of boxes, one chosen in each.

From the topic down, the chosen box of a row is what the row below is about.  The same rows are
drawn by the moving picture and by the still one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from labkit.model.layout import Span
from labkit.model.ledger import LedgerState
from labkit.model.lineage import Lineage

PARTITION, LEDGER, ENTRY, BATCH, BOOKIE = "partition", "ledger", "entry", "batch", "bookie"
MOST_BOXES = 9

HUES = ("ledger", "entry", "header", "frame", "metadata", "own", "payload")
"""What gives a byte its colour: the parts of the id in theirs, the rest by what it belongs to."""
LEGEND = (
    ("header", "BookKeeper's header and digest"),
    ("frame", "Pulsar's frame"),
    ("metadata", "the entry's metadata"),
    ("own", "this message's own"),
    ("payload", "its payload"),
    ("", "the rest of the batch"),
)
"""What the legend says of those that no part of the id explains; "" has no colour."""
_LEDGER_ID, _ENTRY_ID, _HEADER, _FRAME, _METADATA, _OWN, _PAYLOAD = range(len(HUES))
_IDS = {"ledger id": _LEDGER_ID, "entry id": _ENTRY_ID}
_HEADERS = ("length", "last add confirmed", "digest")
_FRAMES = ("broker magic", "broker metadata size", "magic", "checksum", "metadata size")


@dataclass(frozen=True, slots=True)
class Box:
    """A thing beside others of its kind; `words` say more of it, `copy` is the place of its bytes
    in `Lineage.copies`, -1 if it has none.
    """

    title: str
    small: str
    words: str
    is_chosen: bool = False
    is_dashed: bool = False
    copy: int = -1


@dataclass(frozen=True, slots=True)
class Row:
    """`before` and `after` say how many boxes are left out on either side."""

    part: str
    label: str
    note: str
    boxes: tuple[Box, ...]
    before: int = 0
    after: int = 0


def id_boxes(lineage: Lineage) -> list[tuple[str, str, str, str]]:
    """Part, number, name and origin of each of the id's four numbers."""
    it = lineage.message_id
    partition = "from the topic's name" if it.partition >= 0 else "the topic has no partitions"
    batch = "its place in the batch" if it.batch_index >= 0 else "the entry as a whole"
    return [
        (LEDGER, str(it.ledger_id), "ledger id", "from the metadata store"),
        (ENTRY, str(it.entry_id), "entry id", "counted by its writer"),
        (PARTITION, str(it.partition), "partition", partition),
        (BATCH, str(it.batch_index), "batch index", batch),
    ]


def rows_of(lineage: Lineage) -> list[Row]:
    """From the topic down to the bookies."""
    return [
        _partitions(lineage),
        _ledgers(lineage),
        _entries(lineage),
        _messages(lineage),
        _bookies(lineage),
    ]


def _partitions(lineage: Lineage) -> Row:
    chosen, topic = lineage.message_id.partition, lineage.topic
    if not lineage.partition_count:
        words = f"{topic} has no partitions: one chain of ledgers, and partition -1 in every id"
        return Row(PARTITION, "topic", topic, (Box("no partitions", "", words, True),))
    whole = topic.removesuffix(f"-partition-{chosen}")
    boxes = [
        Box(
            f"partition {number}",
            "",
            f"{whole}-partition-{number}: a topic of its own, with ledgers of its own",
            number == chosen,
        )
        for number in range(lineage.partition_count)
    ]
    return _windowed(PARTITION, "topic", whole, boxes)


def _ledgers(lineage: Lineage) -> Row:
    it = lineage.message_id
    boxes = []
    for place, link in enumerate(lineage.chain):
        count = link.entry_count
        state = "open" if count is None else f"{count} {'entry' if count == 1 else 'entries'}"
        words = f"ledger {link.ledger_id}, number {place + 1} of {len(lineage.chain)} in the chain"
        words += ": the open one, which takes what comes" if count is None else ": closed for good"
        chosen = link.ledger_id == it.ledger_id
        boxes.append(Box(f"ledger {link.ledger_id}", state, words, chosen, count is None))
    label = "its chain" if it.partition < 0 else f"partition {it.partition}"
    note = "one ledger after the other; ids grow along the chain, with gaps"
    return _windowed(LEDGER, label, note, boxes)


def _entries(lineage: Lineage) -> Row:
    it, metadata = lineage.message_id, lineage.metadata
    first = next(
        s.first_entry_id for s in reversed(metadata.segments) if s.first_entry_id <= it.entry_id
    )
    sizes = f"E={metadata.ensemble_size} Qw={metadata.write_quorum} Qa={metadata.ack_quorum}"
    fragment = ", ".join(metadata.ensemble_at(it.entry_id))
    state = "open" if metadata.state is LedgerState.OPEN else metadata.state.name.lower()
    note = f"{state.replace('_', ' ')}, {sizes}; from entry {first} on the ensemble is {fragment}"
    boxes = [
        Box(
            f"entry {number}",
            "",
            f"entry {number} of ledger {it.ledger_id}: what the broker added in one piece",
            number == it.entry_id,
        )
        for number in range(lineage.last_entry_id + 1)
    ]
    return _windowed(ENTRY, f"ledger {it.ledger_id}", note, boxes)


def _messages(lineage: Lineage) -> Row:
    it, size = lineage.message_id, lineage.batch_size
    label = f"entry {it.entry_id}"
    if not size:
        words = "one message, no batch: the batch index is -1"
        return Row(BATCH, label, words, (Box("the whole entry", "", words, True),))
    note = f"a batch of {size}: one entry, one receipt, one copy on each bookie of the write set"
    boxes = [
        Box(
            str(number),
            "",
            f"message {number} of the batch: {it.ledger_id}:{it.entry_id}:{it.partition}:{number}",
            it.batch_index in (number, -1),
        )
        for number in range(size)
    ]
    return _windowed(BATCH, label, note, boxes)


def _bookies(lineage: Lineage) -> Row:
    it, metadata = lineage.message_id, lineage.metadata
    ensemble = metadata.ensemble_at(it.entry_id)
    copies = {copy.bookie: place for place, copy in enumerate(lineage.copies)}
    boxes = []
    for place, bookie in enumerate(ensemble):
        if bookie not in copies:
            words = f"{bookie} is place {place} of the ensemble, and not in this write set"
            boxes.append(Box(bookie, "not in the write set", words, is_dashed=True))
            continue
        piece = lineage.copies[copies[bookie]].piece
        name = piece.file.rpartition("/")[2]
        small = f"{name} @ {piece.offset:,}" if piece.data else piece.absent
        where = f"{piece.file}, offset {piece.offset:,}" if piece.data else piece.absent
        words = f"{bookie}, place {place} of the ensemble: {where}"
        boxes.append(Box(bookie, small, words, bool(piece.data), not piece.data, copies[bookie]))
    size, first = metadata.ensemble_size, ensemble[it.entry_id % metadata.ensemble_size]
    note = (
        f"the whole entry lies on {metadata.write_quorum} of {size}:"
        f" {it.entry_id} mod {size} = {it.entry_id % size}, so {first} is the first of them"
    )
    return Row(BOOKIE, "write set", note, tuple(boxes))


def _windowed(part: str, label: str, note: str, boxes: Sequence[Box]) -> Row:
    """So many boxes as there is room for, the first chosen one in or near their middle."""
    chosen = next((place for place, box in enumerate(boxes) if box.is_chosen), 0)
    start = max(0, min(chosen - MOST_BOXES // 2, len(boxes) - MOST_BOXES))
    shown = tuple(boxes[start : start + MOST_BOXES])
    return Row(part, label, note, shown, start, len(boxes) - start - len(shown))


def legend_of(lineage: Lineage) -> list[tuple[int, str]]:
    """The hues that the legend explains, -1 for none; without a batch there are fewer."""
    in_batch = lineage.batch_size > 1 and lineage.message_id.batch_index >= 0
    return [
        (HUES.index(name) if name else -1, words)
        for name, words in LEGEND
        if in_batch or name not in ("own", "")
    ]


def hue_of(lineage: Lineage, span: Span, piece_offset: int) -> int:
    """The place in `HUES` of a span of a copy that begins at that offset; -1 for none."""
    at = span.offset - piece_offset
    if lineage.offset <= at < lineage.offset + lineage.size:
        return _PAYLOAD if span.name == "payload" else _OWN
    if span.name.startswith("message"):
        return -1
    if span.name in _IDS:
        return _IDS[span.name]
    if span.name in _HEADERS:
        return _HEADER
    return _FRAME if span.name in _FRAMES else _METADATA
