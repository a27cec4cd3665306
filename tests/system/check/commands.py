"""The commands of the checks' scripts, which tell hand-written runs step by step.

    ledger 2 2 2 b0 b1   create ledger 7 with E, Qw, Qa and this ensemble (default: 3 3 2 b0 b1 b2)
    unseen               begin the trace after the creation of the ledger
    topic                begin with a topic that broker0 serves
    add 0 1              take a step, which is a method of `Story` or `Topic`
    b2 node.killed       record an event: its node, its kind, its entry id, and other columns
    promise OneWriter    set the promise to check
    check                print the verdict on this run; the next command begins another run

The output for a broken promise contains the event that breaks it, the explanation, and the kinds of
the other events that explain it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from labkit.system.check import CHECKS, Check, Outcome
from labkit.system.trace.events import COLUMN_TYPES, Names
from tests.scripts import Commands, scenarios_of
from tests.system.check.story import Story
from tests.system.check.topic import Topic

SCENARIOS = [
    scenario
    for path in sorted(Path(__file__).parent.glob("*.txt"))
    for scenario in scenarios_of(path)
]
_BEGINNINGS: dict[str, Callable[..., Story]] = {
    "ledger": Story,
    "unseen": partial(Story, whole=False),
    "topic": Topic,
}
_CHECKS = {check.__name__: check for check in CHECKS}


@dataclass(frozen=True)
class Judged:
    """A run, and the outcome of a check of it."""

    check: type[Check]
    story: Story
    outcome: Outcome


class StoryCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        self._story: Story | None = None
        self.judged: list[Judged] = []

    async def run(self, line: str) -> None:
        self.tell(line)

    def tell(self, line: str) -> None:
        for command in line.split(";"):
            name, *words = command.split()
            values = [_value(word) for word in words if "=" not in word]
            columns = dict(_column(*word.split("=")) for word in words if "=" in word)
            if name == "promise":
                self._promise = _CHECKS[words[0]]
            elif name == "check":
                self._check()
            elif name in _BEGINNINGS:
                self._story = _BEGINNINGS[name](*values, **columns)
            else:
                story = self._story = self._story or Story()
                is_event = words and "." in words[0]
                step = partial(story.tell, name) if is_event else getattr(story, name)
                step(*values, **columns)

    def _check(self) -> None:
        story, self._story = self._story or Story(), None
        verdict = story.verdict(self._promise)
        self.judged.append(Judged(self._promise, story, verdict.outcome))
        if verdict.outcome is Outcome.INVALID:
            event = story.events[verdict.seq]
            assert event in verdict.lineage
            others = sorted({each.kind for each in verdict.lineage if each != event})
            explained_by = f" [{', '.join(others)}]" if others else ""
            said = f"invalid at {event.kind}: {verdict.explanation}{explained_by}"
        else:
            assert (verdict.seq, verdict.lineage) == (-1, ())
            said = ": ".join(filter(None, (verdict.outcome, verdict.explanation)))
        assert verdict.tested_count or verdict.outcome is Outcome.UNKNOWN
        self.print_line(said)


def judged_runs() -> Iterator[Judged]:
    """Return all runs that the scripts tell."""
    for scenario in SCENARIOS:
        commands = StoryCommands()
        for line in scenario.lines:
            if line.startswith("> "):
                commands.tell(line.removeprefix("> "))
        yield from commands.judged


def _value(word: str) -> Any:
    """Convert an id, or a message given as `number:ledger:entry`; all other words are names."""
    numbers = word.split(":")
    if all(number.removeprefix("-").isdecimal() for number in numbers):
        found = tuple(map(int, numbers))
        return found if len(found) > 1 else found[0]
    return word


def _column(name: str, word: str) -> tuple[str, Any]:
    """Convert a column of an event, or a named argument of a step."""
    if word in ("true", "false"):
        return name, word == "true"
    kind = COLUMN_TYPES.get(name)
    if kind == Names:
        return name, tuple(word.split(","))
    if kind in (str, float):
        return name, kind(word.replace("_", " "))
    return name, _value(word)
