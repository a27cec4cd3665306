"""A golden script: a conversation of the protocol, as a file that reads from top to bottom.

    # what happens, and why
    Scenario(...)                      the run, as Python
    ! lac.advanced 2: a remark         goes above the first such event (2: its entry)
    ---
    the events, one sentence a line

`pytest tests/golden --record` writes all below the line again.
"""

from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from labkit.check import broken, check_all
from labkit.sim import faults, moments, scenario, workload
from labkit.sim.run import run
from labkit.trace.events import Event
from labkit.trace.sentence import describe
from tests.golden import repairs

HIDDEN = (
    "step.started",
    "step.ended",
    "memtable.put",
    "journal.key_appended",
    "journal.fence_appended",
    "journal.appended",
    "entry_log.written",
    "index.written",
    "memtable.flushed",
    "mark.persisted",
    "read.served",
    "garbage.collected",
    "garbage.kept",
)
"""What a bookie does inside: other scripts and the storage lessons tell of it."""

_LINE = "---\n"
_NAMES = {
    name: value
    for module in (scenario, faults, moments, workload, repairs)
    for name, value in vars(module).items()
    if not name.startswith("_")
}


@dataclass(frozen=True)
class Remark:
    """What stands above the first event of that kind, and of that entry unless it is -1."""

    kind: str
    entry: int
    text: str

    @classmethod
    def parse(cls, line: str) -> "Remark":
        where, _, text = line.removeprefix("! ").partition(": ")
        kind, _, entry = where.partition(" ")
        return cls(kind, int(entry or -1), text)


@dataclass(frozen=True)
class Script:
    """A file, read."""

    head: str
    recorded: str

    @classmethod
    def read(cls, path: Path) -> "Script":
        head, _, recorded = path.read_text().partition(_LINE)
        return cls(head, recorded)

    @property
    def text(self) -> str:
        return f"{self.head}{_LINE}{self.recorded}"

    def events(self) -> list[Event]:
        """Run it, up to the epilogue; every promise must hold."""
        source = "".join(
            line for line in self.head.splitlines(keepends=True) if line[:1] not in ("#", "!")
        )
        made = eval(source, dict(_NAMES))
        events = list(run(made).events) if isinstance(made, scenario.Scenario) else made
        assert broken(check_all(events)) == []
        kinds = [event.kind for event in events]
        return events[: kinds.index("epilogue.started")] if "epilogue.started" in kinds else events

    def record(self) -> "Script":
        """The same script with what happens now."""
        return Script(self.head, "".join(f"{line}\n" for line in self._lines()))

    def _lines(self) -> list[str]:
        remarks = [Remark.parse(line) for line in self.head.splitlines() if line[:1] == "!"]
        lines: list[str] = []
        seen = _without_repetitions(self.events())
        for event in dropwhile(lambda each: each.kind != "ledger.created", seen):
            for remark in list(remarks):
                if remark.kind == event.kind and remark.entry in (-1, event.entry):
                    lines.append(f"            # {remark.text}")
                    remarks.remove(remark)
            lines.append(f"{event.time_us / 1000:9.1f}   {describe(event)}")
        assert remarks == [], "nothing happened that these remarks are about"
        return lines


def _without_repetitions(events: list[Event]) -> list[Event]:
    """Each read of a recovery fences; that a bookie is fenced, and durably, is told once."""
    told: set[tuple[str, str, int]] = set()
    shown = []
    for event in events:
        fence = event.kind == "ledger.fenced" or (event.kind, event.entry) == ("journal.synced", -1)
        key = event.kind, event.node, event.ledger
        if event.kind not in HIDDEN and not (fence and key in told):
            shown.append(event)
        if fence:
            told.add(key)
    return shown
