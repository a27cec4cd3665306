"""Test scripts, which are text files that show a conversation with the system, command by command.

    == the ledgers of a lost bookie are marked
    # Other scripts cover the delay.
    > ledger 3
    > start a; stop b2; wait 1
        1.0 s  a declared b2 lost

A scenario begins with `==` and its title. A line that starts with `>` contains commands, and the
indented lines below it are their output. All other lines are remarks, except that `promise: ...`
adds a sentence to the list of promises. Commands above the first title are run at the beginning of
every scenario of the file. A subclass of `Commands` defines what the commands mean.

`pytest FILE --record` writes the output again. Review the diff before you commit it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import LabkitError
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe

_TITLE, _COMMANDS, _OUTPUT = "== ", "> ", "    "
_ENTRIES = {
    "entry.copied": "{} copied {} of ledger {} to {}",
    "read.sent": "{} requested {} of ledger {} from {}",
}
"""Event kinds whose consecutive events share a line, and their sentences."""


class Commands:
    """Runs commands. Each method whose name does not start with an underscore is a command.

    The words of a command are the arguments of the method; words that look like numbers are passed
    as numbers. The output consists of the events whose kinds were selected by `show`, followed by
    the lines that the commands printed.
    """

    def __init__(self, rows: list[Event]) -> None:
        self.rows = rows
        self._row_count = 0
        self._shown: tuple[str, ...] = ()
        self._printed: list[str] = []

    async def play(self, line: str) -> list[str]:
        """Run commands and return their output."""
        await self.run(line)
        return self.output()

    async def run(self, line: str) -> None:
        """Run commands, which are separated by `;`."""
        for command in line.split(";"):
            name, *words = command.split()
            try:
                await getattr(self, name)(*map(_value, words))
            except LabkitError as error:
                self.print_line(f"{type(error).__name__}: {error}")

    def output(self) -> list[str]:
        """Return the new events and lines."""
        printed, self._printed = self._printed, []
        return [*self.new_events(), *printed]

    def print_line(self, line: str) -> None:
        self._printed.append(line)

    async def show(self, *kinds: str) -> None:
        """From now on, show only events of these kinds."""
        self._shown = kinds

    def new_events(self) -> Iterator[str]:
        rows, self._row_count = self.rows[self._row_count :], len(self.rows)
        shown = [row for row in rows if row.kind in self._shown]
        for _, some in groupby(shown, _group):
            events = list(some)
            described = _entries(events) if events[0].kind in _ENTRIES else map(describe, events)
            for event, sentence in zip(events, described, strict=False):
                detail = f" [{event.detail}]" if event.detail else ""
                yield f"{event.time_us / 1e6:6.1f} s  {sentence}{detail}"


@dataclass(frozen=True)
class Scenario:
    """One scenario of a script file; `lines` does not include the line with the title."""

    path: Path
    title: str
    beginning: tuple[str, ...]
    lines: tuple[str, ...]

    @property
    def name(self) -> str:
        """The title in a form that pytest's option `-k` accepts."""
        return self.title.replace(" ", "_")

    async def played(self, commands: Commands) -> tuple[str, ...]:
        """Run the commands and return the scenario's lines with the new output."""
        for line in self.beginning:
            await commands.play(line)
        lines: list[str] = []
        for line in self.lines:
            if line.startswith(_OUTPUT):
                continue
            lines.append(line)
            if line.startswith(_COMMANDS):
                lines += [
                    _OUTPUT + each for each in await commands.play(line.removeprefix(_COMMANDS))
                ]
        return tuple(lines)

    def record(self, lines: tuple[str, ...]) -> None:
        """Write these lines in place of the scenario's lines."""
        text = self.path.read_text(encoding="utf-8")
        before, after = (
            "\n".join((_TITLE + self.title, *each, "")) for each in (self.lines, lines)
        )
        self.path.write_text(text.replace(before, after), encoding="utf-8")


def scenarios_of(path: Path) -> list[Scenario]:
    """Return the scenarios of a script file."""
    head, *texts = path.read_text(encoding="utf-8").split(f"\n{_TITLE}")
    commands = (line for line in head.split("\n") if line.startswith(_COMMANDS))
    beginning = tuple(line.removeprefix(_COMMANDS) for line in commands)
    parts = (text.rstrip("\n").split("\n") for text in texts)
    return [Scenario(path, title, beginning, tuple(lines)) for title, *lines in parts]


def _value(word: str) -> str | int | float:
    for convert in (int, float):
        try:
            return convert(word)
        except ValueError:
            continue
    return word


def _group(event: Event) -> tuple[str, ...]:
    """Return the key by which consecutive events are grouped into one line of output."""
    if event.kind not in _ENTRIES:
        return (event.kind, event.node)
    return event.kind, event.node, str(event.ledger), str(event.entry == NO_ENTRY_ID)


def _entries(events: list[Event]) -> Iterator[str]:
    """Describe events about entries of one ledger, with one line for each peer."""
    sentence = _ENTRIES[events[0].kind]
    for peer in dict.fromkeys(event.peer for event in events):
        same = [event for event in events if event.peer == peer]
        entries = ranges(sorted(event.entry for event in same))
        first_s, last_s = (f"{event.time_us / 1e6:.1f}" for event in (same[0], same[-1]))
        until = f" until {last_s} s" if first_s < last_s else ""
        yield sentence.format(same[0].node, entries, same[0].ledger, peer) + until


def ranges(entry_ids: list[int]) -> str:
    """Return sorted entry ids as text, for example `0-3,5`; an id that occurs twice is shown
    twice.
    """
    ranges: list[list[int]] = []
    for entry_id in entry_ids:
        if ranges and ranges[-1][1] + 1 == entry_id:
            ranges[-1][1] = entry_id
        else:
            ranges.append([entry_id, entry_id])
    return ",".join(f"{a}-{b}" if a < b else str(a) for a, b in ranges)
