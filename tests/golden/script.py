"""Golden scripts, which are protocol exchanges recorded in files that can be read from top to
bottom.

    # what happens, and why
    Scenario(...)                      the scenario, in Python
    ! lac.advanced 2: a remark         placed above the first such event for entry 2
    > w>b0 ADD 0: a remark             shows the bytes of the first frame with that name (frames.py)
    ---
    the events, one sentence per line

Scripts with brokers show every command between brokers and Pulsar clients, but do not show how
entries are added to bookies.

`pytest tests/golden --record` rewrites everything below the line of dashes.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path

from labkit.system.check import broken, check_all
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario import faults, scenario
from labkit.worlds.sim.settings import cluster
from labkit.worlds.sim.settings import triggers as moments
from labkit.worlds.sim.workload import consume, publish
from labkit.worlds.sim.workload import steps as workload
from tests.golden import repairs
from tests.golden.frames import Frame, heard

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
"""Internal events of a bookie, which the storage lessons and other scripts show."""

BELOW_BROKERS = (
    "add.pushed",
    "add.sent",
    "add.acked",
    "journal.synced",
    "lac.advanced",
    "read.sent",
    "read.done",
    "read.failed",
    "fence.sent",
    "fence.answered",
    "ledger.fenced",
    "lac.read",
)
"""Events that are left out of scripts with brokers because other scripts show them."""

_LINE = "---\n"
_NO_CODE = ("#", "!", ">")
_NAMES = {
    name: value
    for module in (scenario, faults, moments, workload, publish, consume, cluster, repairs)
    for name, value in vars(module).items()
    if not name.startswith("_")
}


@dataclass(frozen=True)
class Remark:
    """Text above the first event of this kind. Unless `entry` is -1, only events of this entry
    count.
    """

    kind: str
    entry: int
    text: str

    @classmethod
    def parse(cls, line: str) -> "Remark":
        where, _, text = line.removeprefix("! ").partition(": ")
        kind, _, entry = where.partition(" ")
        return cls(kind, int(entry or -1), text)

    def fits(self, shown: Event | Frame) -> bool:
        return (
            isinstance(shown, Event) and self.kind == shown.kind and self.entry in (-1, shown.entry)
        )


@dataclass(frozen=True)
class InBytes:
    """Text above the first frame with this name, whose bytes are shown below it."""

    name: str
    text: str

    @classmethod
    def parse(cls, line: str) -> "InBytes":
        return cls(*line.removeprefix("> ").split(": ", 1))

    def fits(self, shown: Event | Frame) -> bool:
        return isinstance(shown, Frame) and self.name == shown.name


@dataclass(frozen=True)
class Script:
    """The two parts of a script file."""

    head: str
    recorded: str

    @classmethod
    def read(cls, path: Path) -> "Script":
        head, _, recorded = path.read_text().partition(_LINE)
        return cls(head, recorded)

    @property
    def text(self) -> str:
        return f"{self.head}{_LINE}{self.recorded}"

    def happened(self) -> list[Event | Frame]:
        """Run the script up to the epilogue, check all promises, and return the events and
        frames.
        """
        source = "".join(
            line for line in self.head.splitlines(keepends=True) if line[:1] not in _NO_CODE
        )
        with heard() as frames:
            made = eval(source, dict(_NAMES))
            events = list(run(made).events) if isinstance(made, scenario.Scenario) else made
        assert broken(check_all(events)) == []
        kinds = [event.kind for event in events]
        end = kinds.index("epilogue.started") if "epilogue.started" in kinds else len(events)
        return _merged(events[:end], frames)

    def record(self) -> "Script":
        """Return the script with a new recording."""
        return Script(self.head, "".join(f"{line}\n" for line in self._lines()))

    def _lines(self) -> list[str]:
        marks = [
            parse(line)
            for line in self.head.splitlines()
            for first, parse in (("!", Remark.parse), (">", InBytes.parse))
            if line[:1] == first
        ]
        lines: list[str] = []
        for shown in _worth_showing(self.happened(), marks):
            fitting = [mark for mark in marks if mark.fits(shown)]
            lines += [f"            # {mark.text}" for mark in fitting]
            lines.append(f"{shown.time_us / 1000:9.1f}   {_sentence(shown)}")
            if isinstance(shown, Frame) and fitting:
                lines += [f"            {line}" for line in shown.lines()]
            marks = [mark for mark in marks if mark not in fitting]
        assert marks == [], "no event matches these remarks"
        return lines


def _merged(events: list[Event], frames: list[Frame]) -> list[Event | Frame]:
    """Merge events and frames by time; frames follow the events of the same time."""
    merged: list[Event | Frame] = []
    waiting = deque(frames)
    for event in events:
        while waiting and waiting[0].time_us < event.time_us:
            merged.append(waiting.popleft())
        merged.append(event)
    last_us = events[-1].time_us
    return [*merged, *(frame for frame in waiting if frame.time_us <= last_us)]


def _sentence(shown: Event | Frame) -> str:
    if isinstance(shown, Event):
        return describe(shown)
    return shown.words() if shown.is_pulsars else f"{shown.name} in bytes"


def _worth_showing(
    happened: list[Event | Frame], marks: list[Remark | InBytes]
) -> Iterator[Event | Frame]:
    """Yield the events and frames that the script shows.

    Every read during recovery fences the bookie, but the script shows only the first fence of each
    bookie and the first sync of this fence.
    """
    said: set[tuple[str, str, int]] = set()
    with_brokers = any(isinstance(each, Frame) and each.is_pulsars for each in happened)
    hidden = (*HIDDEN, *BELOW_BROKERS) if with_brokers else HIDDEN
    for each in dropwhile(lambda each: not _begins(each), happened):
        if isinstance(each, Frame):
            if each.is_command or any(mark.fits(each) for mark in marks):
                yield each
            continue
        fence = each.kind == "ledger.fenced" or (each.kind, each.entry) == ("journal.synced", -1)
        key = each.kind, each.node, each.ledger
        if each.kind not in hidden and not (fence and key in said):
            yield each
        if fence:
            said.add(key)


def _begins(each: Event | Frame) -> bool:
    """Return whether the exchange starts here; everything before it is cluster startup."""
    return each.is_pulsars if isinstance(each, Frame) else each.kind == "ledger.created"
