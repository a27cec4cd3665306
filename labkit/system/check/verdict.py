"""Verdicts, which are the results of checking a trace, as text and as cards for notebooks."""

from dataclasses import dataclass
from enum import StrEnum
from html import escape

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe

# JupyterLab's variables follow its theme; the fallback colours are legible in any theme.
_CARD = (
    "border-left:4px solid {colour};padding:.3em .9em;margin:.3em 0;"
    "color:var(--jp-content-font-color1,inherit)"
)
# Without this style, JupyterLab breaks preformatted lines in the middle of words.
_SEQUENCE = "white-space:pre-wrap;word-break:normal"


class Outcome(StrEnum):
    """`UNKNOWN` means that the trace never tested the promise, or lacks an event that the check
    needs.
    """

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


_SIGNS = {Outcome.VALID: "✔", Outcome.INVALID: "✘", Outcome.UNKNOWN: "○"}
_COLOURS = {
    Outcome.VALID: "var(--jp-success-color1,#2a8a5d)",
    Outcome.INVALID: "var(--jp-error-color1,#d0552b)",
    Outcome.UNKNOWN: "var(--jp-brand-color1,#2b7bba)",
}


@dataclass(frozen=True, slots=True, repr=False)
class Verdict:
    """The result of checking one promise in one trace.

    tested_count   how many times the trace tested the promise
    explanation    how the promise was broken, or why the trace is inconclusive
    seq            the event that broke the promise, or -1
    time_us        the time of that event, or -1
    witnesses      other events that the explanation refers to
    lineage        the event that broke the promise, the witnesses and all their causes, in order
    """

    name: str
    promise: str
    outcome: Outcome
    tested_count: int = 0
    explanation: str = ""
    seq: int = -1
    time_us: int = -1
    witnesses: tuple[int, ...] = ()
    lineage: tuple[Event, ...] = ()

    @property
    def reason(self) -> str:
        """The explanation, preceded by the time at which the promise was broken, if it is known."""
        moment = f"At {self.time_us / 1000:.3f} ms, event {self.seq}: " if self.time_us >= 0 else ""
        return f"{moment}{self.explanation}"

    @property
    def sequence(self) -> str:
        """The lineage as text, one event per line; an arrow marks the violation."""
        return "\n".join(
            f"{'→' if event.seq == self.seq else ' '} {event.time_us / 1000:10.3f} ms"
            f"  {event.seq:>5}  {describe(event)}"
            for event in self.lineage
        )

    def __repr__(self) -> str:
        head = f"{self._title}. {self.promise}"
        return "\n".join(line for line in (head, self.reason, self.sequence) if line)

    def _repr_html_(self) -> str:
        lines = [f"<b>{escape(self._title)}</b>", _paragraph(self.promise)]
        if self.reason:
            lines.append(_paragraph(self.reason))
        if self.lineage:
            lines.append(f'<pre style="{_SEQUENCE}">{escape(self.sequence)}</pre>')
        style = _CARD.format(colour=_COLOURS[self.outcome])
        return f'<div style="{style}">{"".join(lines)}</div>'

    @property
    def _title(self) -> str:
        return f"{_SIGNS[self.outcome]} {self.name}: {self.outcome}"


def _paragraph(text: str) -> str:
    return f'<p style="margin:.3em 0">{escape(text)}</p>'
