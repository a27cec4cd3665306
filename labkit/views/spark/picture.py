"""An SVG that breaks a MessageID down into partition, ledger, entry and message within the batch.

The picture is drawn from real rows and needs no JavaScript, so a notebook displays it without a
kernel. Each part of the id has the same colour wherever it appears.
"""

from base64 import b64encode
from collections.abc import Iterator
from html import escape
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LEDGER, ENTRY, PARTITION, BATCH = "#0072b2", "#d55e00", "#00795a", "#8f4a86"
INK, FAINT, BACK = "#1f2328", "#59636e", "#e4e8ec"

WIDTH, LEFT, RIGHT = 880, 112, 860
LANES_TOP, LANE_HEIGHT, BOX_HEIGHT = 132, 46, 28
MAX_LEDGERS, MAX_MESSAGES, MAX_CELLS = 8, 24, 150

Row = dict[str, Any]
Chains = dict[int, list[tuple[int, int]]]


class SvgImage(str):
    """An SVG document that a notebook displays as an image.

    JupyterLab shows bare SVG as text in untrusted notebooks, but displays an image with a data URL.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return "a MessageID taken apart"

    def _repr_html_(self) -> str:
        data = b64encode(self.encode()).decode()
        return f'<img alt="{self!r}" src="data:image/svg+xml;base64,{data}">'


def message_id_picture(messages: pa.Table, seq: int) -> SvgImage:
    """Return an SVG that shows where the message with this `seq` is stored in its topic."""
    (message,) = messages.filter(pc.equal(messages["seq"], seq)).to_pylist()
    topic = messages.filter(pc.equal(messages["topic"], message["topic"]))
    ledger = topic.filter(pc.equal(topic["ledger"], message["ledger"]))
    entry = ledger.filter(pc.equal(ledger["entry"], message["entry"]))
    chains = _chains(topic)
    message["entries"] = dict(chains[message["partition"]])[message["ledger"]]
    entries_top = LANES_TOP + LANE_HEIGHT * len(chains) + 14
    height = entries_top + 136
    # Omit the width attribute, so that the SVG fills the width of the page.
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
        ' font-family="system-ui, sans-serif" font-size="13" role="img">',
        f"<title>MessageID {_text(message)} of the topic {escape(message['topic'])}</title>",
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
        *_draw_id(message),
        *_draw_chains(chains, message),
        *_draw_entries(message, entries_top),
        *_draw_messages(sorted(set(entry["batch_index"].to_pylist())), message, entries_top + 76),
        "</svg>",
    ]
    return SvgImage("\n".join(parts))


def _chains(topic: pa.Table) -> Chains:
    last_entries = topic.group_by(["partition", "ledger"]).aggregate([("entry", "max")])
    chains: Chains = {}
    for row in last_entries.sort_by(
        [("partition", "ascending"), ("ledger", "ascending")]
    ).to_pylist():
        chains.setdefault(row["partition"], []).append((row["ledger"], row["entry_max"] + 1))
    return chains


def _draw_id(message: Row) -> Iterator[str]:
    parts = [
        ("ledger", LEDGER, "ledger id", "from the metadata store"),
        ("entry", ENTRY, "entry id", "counted by the ledger's writer"),
        ("partition", PARTITION, "partition", "from the topic's name"),
        ("batch_index", BATCH, "batch index", "counted by the producer"),
    ]
    for i, (part, colour, name, origin) in enumerate(parts):
        x = 20 + 215 * i
        yield _box(x, 16, 150, 40, colour)
        yield _label(x + 75, 43, str(message[part]), "#ffffff", size=20)
        yield _label(x + 75, 76, name, colour, size=14)
        yield _label(x + 75, 94, origin, FAINT, size=11)
        if i < 3:
            yield _label(x + 182, 43, ":", INK, size=22)


def _draw_chains(chains: Chains, message: Row) -> Iterator[str]:
    """Draw one lane per partition, with its ledgers as boxes; the last ledger is open."""
    width = (RIGHT - LEFT) / MAX_LEDGERS
    for lane, (partition, ledgers) in enumerate(chains.items()):
        y = LANES_TOP + LANE_HEIGHT * lane
        is_own_lane = partition == message["partition"]
        yield _label(
            14, y + 19, f"partition {partition}", PARTITION if is_own_lane else FAINT, "start"
        )
        chosen = ledgers.index((message["ledger"], message["entries"])) if is_own_lane else 0
        start = _window(len(ledgers), chosen, MAX_LEDGERS)
        for i, (ledger, entries) in enumerate(ledgers[start : start + MAX_LEDGERS]):
            x = LEFT + width * i
            colour = LEDGER if is_own_lane and start + i == chosen else FAINT
            is_open = start + i == len(ledgers) - 1
            yield _box(x, y, width - 8, BOX_HEIGHT, "#ffffff", colour, dashed=is_open)
            state = f"open, {entries}" if is_open else f"{entries} entries"
            yield _label(x + width / 2 - 4, y + 12, f"ledger {ledger}", colour, size=11)
            yield _label(x + width / 2 - 4, y + 24, state, colour, size=10)
        if start + MAX_LEDGERS < len(ledgers):
            yield _label(RIGHT + 4, y + 18, "…", FAINT)


def _window(count: int, chosen: int, shown: int) -> int:
    """Return the first of `shown` consecutive indices below `count`, centred on `chosen`."""
    return max(0, min(chosen - shown // 2, count - shown))


def _draw_entries(message: Row, y: int) -> Iterator[str]:
    entries, chosen = message["entries"], message["entry"]
    width = (RIGHT - LEFT) / entries
    yield _label(14, y + 16, f"ledger {message['ledger']}", LEDGER, "start")
    if entries <= MAX_CELLS:
        for i in range(entries):
            yield _box(LEFT + width * i, y, width - 1.5, 22, BACK)
    else:
        yield _box(LEFT, y, RIGHT - LEFT, 22, BACK)
    x = LEFT + width * chosen
    yield _box(x, y, max(width - 1.5, 3), 22, ENTRY)
    yield f'<path d="M{x + width / 2:.1f} {y + 22} v16" stroke="{ENTRY}" stroke-width="2"/>'
    yield _label(min(max(x, LEFT + 30), RIGHT - 30), y + 52, f"entry {chosen}", ENTRY, size=12)


def _draw_messages(indexes: list[int], message: Row, y: int) -> Iterator[str]:
    chosen = indexes.index(message["batch_index"])
    start = _window(len(indexes), chosen, MAX_MESSAGES)
    shown = indexes[start : start + MAX_MESSAGES]
    cell = (RIGHT - LEFT) / MAX_MESSAGES
    yield _label(14, y + 16, f"entry {message['entry']}", ENTRY, "start")
    for i, index in enumerate(shown):
        fill, ink = (BATCH, "#ffffff") if index == message["batch_index"] else (BACK, INK)
        yield _box(LEFT + cell * i, y, cell - 3, 24, fill)
        yield _label(LEFT + cell * (i + 0.5) - 1.5, y + 16, str(index), ink, size=11)
    if start + len(shown) < len(indexes):
        yield _label(RIGHT + 4, y + 16, "…", FAINT)
    note = "the whole entry is one message" if indexes == [-1] else f"{len(indexes)} in one batch"
    yield _label(LEFT, y + 44, note, BATCH, "start", 12)


def _text(message: Row) -> str:
    return ":".join(str(message[part]) for part in ("ledger", "entry", "partition", "batch_index"))


def _box(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str,
    line: str = "none",
    dashed: bool = False,
) -> str:
    dash = ' stroke-dasharray="5 3"' if dashed else ""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height}" rx="3"'
        f' fill="{fill}" stroke="{line}" stroke-width="1.5"{dash}/>'
    )


def _label(
    x: float, y: float, text: str, colour: str, anchor: str = "middle", size: int = 13
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"'
        f' font-size="{size}">{text}</text>'
    )
