"""Renders an event, or the state of an entry's copy, as a sentence, using the templates of `kinds`.

In a template, `{name}` stands for a column. Text in square brackets is omitted if a column inside
the brackets does not apply. A boolean column renders as an empty string.
"""

import re
from collections.abc import Mapping
from typing import Any

from labkit.system.trace.events import COLUMN_TYPES, Event, Segments
from labkit.system.trace.kinds import KINDS

COPIES: dict[str, str] = {
    "sent": "sent, not yet received",
    "memtable": "in its memtable, not yet durable"
    "[; not synced: journal {journal_file}][ offset {journal_offset}]",
    "durable": "durable[, journal {journal_file}][ offset {journal_offset}]",
    "flushed": "flushed[, entry log {log_file}][ offset {log_offset}]"
    "[; journal {journal_file}][ offset {journal_offset}]",
    "failed": "not acknowledged[: {error}]",
    "lost": "lost: it was only in memory when the bookie was killed",
}
"""The templates for a bookie's copy of an entry, by the state of the copy."""

_FIELD = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^][]*)\]")


def fill(template: str, values: Mapping[str, object]) -> str:

    def optional(part: re.Match[str]) -> str:
        return "" if any(_is_absent(values[name]) for name in _FIELD.findall(part[1])) else part[1]

    text = _OPTIONAL.sub(optional, template)
    return _FIELD.sub(lambda field: _text(field[1], values[field[1]]), text)


def _is_absent(value: object) -> bool:
    return value is False or value in ("", -1, ())


def _text(name: str, value: Any) -> str:
    if COLUMN_TYPES.get(name) == Segments:
        return " ".join(f"{first}:{','.join(ensemble)}" for first, ensemble in value)
    if isinstance(value, tuple):
        # The order of the bookies matters only in an ensemble.
        return (", " if name == "bookies" else ",").join(value)
    if isinstance(value, bool):
        return ""
    return f"{value:g}" if isinstance(value, float) else str(value)


def describe(event: Event) -> str:
    """Return the event as one sentence without a full stop."""
    return fill(KINDS[event.kind].sentence, event._asdict())


def how_it_ended(event: Event) -> str:
    """Describe how a client's step ended: `done`, or the reason why the step failed."""
    return fill("[{detail}][{error}][: {explanation}]", event._asdict())
