"""The messages in flight as cards, in columns.

A click on a card delivers the message. Small buttons below the card drop or duplicate it. A message
that must wait for an earlier one on its connection has a faint card without buttons. The card gives
the reason, as does the card of a message that will be dropped.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from labkit.views.widgets.drawing.scene import Mark, group, path, rect, text
from labkit.views.widgets.drawing.text_metrics import lines_of, width_of

LINE, BUTTON, BETWEEN = 15, 24, 8
_LABELS = {
    "lose": ("✕", "Lose", "Lose the message “{}” from {} to {}"),
    "copy": ("+", "Copy", "Deliver the message “{}” from {} to {} twice"),
}


class Message(Hashable, Protocol):
    """A message in flight; two equal messages have the same card."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def target(self) -> str: ...
    @property
    def words(self) -> str: ...
    @property
    def behind(self) -> str:
        """A description of the message on the same connection that must arrive first, or ""."""

    @property
    def is_void(self) -> bool:
        """Whether the message will be dropped, because its connection is closed."""


class Column(NamedTuple):
    """A column of cards: its position, its messages, and the moves that cut a bookie's power."""

    x: float
    width: float
    messages: Sequence[Message]
    cuts: Sequence[str]


def column_marks(
    key: str, column: Column, bookies: Sequence[str], offers: Callable[[str], bool]
) -> tuple[Mark, float]:
    """Return the buttons and cards of a column, and their height."""
    parts, y = list[Mark](), 0.0
    for move in column.cuts:
        bookie = move.split()[1]
        title = f"Cut the power of {bookie}: it loses what it has not synced, and restarts"
        word = f"Cut {bookie}'s power"
        parts.append(_button(f"cut {bookie}", "ϟ", word, title, move, 0, y, column.width))
        y += BUTTON + BETWEEN
    for at, message in enumerate(column.messages):
        moves = tuple(f"{kind} {message.name}" for kind in _LABELS)
        card, height = _card(
            f"{message.name} {at}",
            message,
            offers(f"deliver {message.name}"),
            tuple(move for move in moves if offers(move)),
            message.target in bookies,
            column.width,
        )
        parts.append(group(f"place {at}", card, y=y))
        y += height + BETWEEN
    return group(key, *parts, x=column.x), y


@lru_cache(1024)
def _card(
    key: str,
    message: Message,
    is_offered: bool,
    moves: tuple[str, ...],
    to_bookie: bool,
    width: float,
) -> tuple[Mark, float]:
    source, target, words, behind = message.source, message.target, message.words, message.behind
    lines = lines_of(words, width - 16)
    if behind:
        lines += lines_of(f"must wait for “{behind}”", width - 16)
    elif message.is_void:
        lines += lines_of("no effect: the connection is closed", width - 16)
    height = 26 + LINE * len(lines)
    can_arrive = is_offered and not behind
    ink, stroke = ("ink", "stored" if to_bookie else "well") if can_arrive else ("faint", "line")
    ends = f"{source} → {target}" if source != target else f"{source} begins to"
    parts = [
        rect("box", 0, 0, width, height, rx=6, fill="page", stroke=stroke, thick=2),
        text("ends", 8, 17, ends, fill=ink, bold=True),
        *(text(f"{at}", 8, 33 + LINE * at, line, fill=ink) for at, line in enumerate(lines)),
    ]
    if not can_arrive:
        state = "is in flight"
        if behind:
            state = f"must wait for “{behind}”: a connection delivers its messages in order"
        title = f"The message “{words}” from {source} to {target} {state}"
        card = group("card", *parts, title=title)
    else:
        parts.append(path("play", f"M{width - 17:g} 8l9 5.5l-9 5.5z", fill=stroke))
        title = (
            f"Let {source} begin to {words}"
            if source == target
            else f"Deliver the message “{words}” from {source} to {target}"
        )
        if message.is_void:
            title += ", which drops it, because the connection is closed"
        card = group("card", *parts, title=title, act="deliver", on=f"deliver {message.name}")
    buttons, x = list[Mark](), 0.0
    for move in moves:
        sign, label, sentence = _LABELS[move.split()[0]]
        title = sentence.format(words, source, target)
        wide = width_of(label) + 30
        buttons.append(_button(label, sign, label, title, move, x, height + 3, wide))
        x += wide + 4
    return group(key, card, *buttons), height + (BUTTON + 3 if moves else 0)


def _button(
    key: str, sign: str, word: str, title: str, move: str, x: float, y: float, width: float
) -> Mark:
    box = rect("box", 0, 0, width, BUTTON, rx=4, fill="box", stroke="line")
    icon = text("icon", 12, 16.5, sign, bold=True, anchor="middle")
    label = text("word", 22, 16.5, word)
    return group(key, box, icon, label, x=x, y=y, title=title, act="move", on=move)
