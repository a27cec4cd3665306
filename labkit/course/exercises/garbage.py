"""Lesson 10: which ledgers go, which logs are compacted, and in which order a compaction goes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise, in_order
from labkit.course.exercises.generated import storage as drawn
from labkit.course.runs.ledger_race import DELETED, LIVING, LedgerRace
from labkit.course.runs.trial import CrashCounterexample, must_survive
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.entry_log import location_of, log_name, scan_entry_log
from labkit.system.storage.garbage import (
    Copied,
    EntryLogMetadata,
    GarbageCollector,
    deleted_ledgers,
    logs_to_compact,
)
from labkit.system.storage.store import LedgerStore
from labkit.views.widgets.log_usage import LogBar, LogUsage
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.machine.disk import Fuse
from labkit.worlds.sim.settings import bookie_script as script
from labkit.worlds.sim.settings.bookie_script import (
    CONFIG,
    Add,
    Checkpoint,
    Collect,
    Commit,
    ScriptedBookie,
    ScriptStep,
    StoreFactory,
    new_machine,
)

ListStored = Callable[[], list[int]]
AskExisting = Callable[[], set[int]]
Dropped = Callable[[ListStored, AskExisting], list[int]]
Worth = Callable[[list[EntryLogMetadata], float], list[int]]

TWO_LOGS: tuple[ScriptStep, ...] = (
    *(Add(LIVING, 0, 100), Add(DELETED, 0, 900), Commit(), Checkpoint()),
    *(Add(LIVING, 1, 700), Add(DELETED, 1, 700), Commit(), Checkpoint()),
    Collect((DELETED,)),
)
"""Two logs that two ledgers share; then one of the ledgers is deleted."""


# Which ledgers may be dropped


def ledgers_to_drop(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    """The ledgers that were deleted.

    list_stored: asks the bookie which ledgers it stores; ask_existing: asks the metadata store
    which ledgers there are.
    """
    stored = list_stored()
    return deleted_ledgers(stored, ask_existing())


def _ask_between(
    learner: Dropped, stored: list[int], deleted: list[int], created: list[int]
) -> set[int]:
    """Put the two questions' answers, between which a client creates ledgers."""
    asked = 0

    def list_stored() -> list[int]:
        nonlocal asked
        asked += 1
        return stored + created * (asked > 1)

    def ask_existing() -> set[int]:
        nonlocal asked
        asked += 1
        return set(stored) - set(deleted) | set(created * (asked > 1))

    return set(learner(list_stored, ask_existing))


def _words_between(case: Arguments) -> str:
    stored, deleted, created = case
    between = f", while a client creates {created}" if created else ""
    return f"about a bookie that stores {stored}, of which {deleted} are deleted{between}"


@exercise(
    "garbage.dropped",
    hints=(
        "A ledger is garbage when the bookie stores it and the metadata does not have it. But you"
        " ask two questions, and the world goes on between them.",
        "A client creates a ledger in the metadata first, and only then adds to it. Which of your"
        " two lists may be older without harm?",
        "List what is stored first, then ask what exists: what was stored then existed before you"
        " asked. If the metadata store raises an error, let it pass through.",
    ),
    like=ledgers_to_drop,
    cases=Cases(
        drawn.changing_ledgers,
        ledgers_to_drop,
        "Every ledger that was deleted goes, and no other, whatever is created between your"
        " questions.",
        ask=_ask_between,
        words=_words_between,
    ),
)
def dropped(learner: Dropped) -> str:
    """Deleted ledgers go; a ledger that exists stays, whenever it was created."""
    moments = [(created, added) for created in range(3) for added in range(created, 3)]
    for created, added in moments[::-1]:
        race = LedgerRace(created, added)
        answer = learner(race.list_stored, race.ask_existing)
        _judge(race, race.drop(answer))
    race = LedgerRace(0, 0, answers=False)
    try:
        answer = learner(race.list_stored, race.ask_existing)
    except MetadataUnavailableError:
        answer = []
    if race.drop(answer) or answer:
        raise Refused(
            "Not knowing which ledgers exist is not a reason to drop any.", "\n".join(race.story)
        )
    return (
        f"The deleted ledger went and nothing else in {len(moments)} races with a client, and"
        " nothing at all while the metadata store did not answer."
    )


def _judge(race: LedgerRace, gone: list[int]) -> None:
    story = "\n".join([*race.story, *(f"entry 0 of ledger {i} is gone" for i in gone)])
    if LIVING in gone:
        raise Refused("A ledger that the metadata has must stay.", story)
    if gone:
        raise Refused(
            "A ledger that is created between your two questions must stay: it was acknowledged.",
            story,
        )
    if DELETED in race.stored:
        raise Refused(
            "A ledger that the metadata does not have must go, or the disk stays full.", story
        )


# Which logs are worth compacting


def _worth_rule(case: Arguments, chosen: list[int]) -> str:
    logs, threshold = case
    share = {log.log_id: log.usage for log in logs}
    expected = set(logs_to_compact(logs, threshold))
    if not set(chosen) <= set(share):
        return _NO_SUCH_LOG
    if any(share[each] == 0 for each in chosen):
        return "A log of which nothing lives needs no compaction: it goes as a whole."
    if any(share[each] == 1 for each in chosen):
        return "A full log stays: copying it gives nothing back, again and again."
    if set(chosen) - expected:
        return "A log stays when the threshold or more of it lives."
    if expected - set(chosen):
        return "A log of which less than the threshold lives is worth compacting."
    return "The emptiest logs come first, by the part that lives and not by bytes, each once."


_NO_SUCH_LOG = "The answer is a list of log ids, each of a log that there is."


def _bars(case: Arguments, _: list[int]) -> LogUsage:
    bars = []
    for log in case[0]:
        dead = log.total_bytes - sum(log.ledger_bytes.values())
        parts = {**log.ledger_bytes, DELETED: dead} if dead else log.ledger_bytes
        bars.append(LogBar(log_name(log.log_id), parts))
    return LogUsage(bars, {ledger for log in case[0] for ledger in log.ledger_bytes})


def _by_tenths(case: Arguments, chosen: list[int]) -> tuple[list[int], list[int]]:
    """Which logs are chosen, and in which order: those of one tenth are equally worth it."""
    tenth = {log.log_id: min(9, int(10 * log.usage)) for log in case[0]}
    return sorted(chosen), [tenth.get(each, -1) for each in chosen]


def _worth_words(case: Arguments) -> str:
    logs, threshold = case
    lives = ", ".join(
        f"log {log.log_id} ({sum(log.ledger_bytes.values())} of {log.total_bytes} bytes live)"
        for log in logs
    )
    return f"about {lives or 'no logs'}, with the threshold {threshold}"


@exercise(
    "garbage.worth",
    hints=(
        "log.usage says how much of a log lives, from 0 to 1. A log is worth it when that is below"
        " the threshold.",
        "A log of which nothing lives goes as a whole, without compaction: leave it out. What gives"
        " most space back for the fewest bytes copied comes first.",
        "Keep those with 0 < log.usage < threshold, sort them by log.usage, return their"
        " log.log_id.",
    ),
    like=logs_to_compact,
    cases=Cases(
        drawn.used_logs,
        logs_to_compact,
        _worth_rule,
        counts=_by_tenths,
        words=_worth_words,
        picture=_bars,
    ),
)
def worth(learner: Worth) -> str:
    """Logs below the threshold are compacted, the emptiest first, never an empty or a full one."""

    def chosen_of(logs: list[EntryLogMetadata], threshold: float) -> list[int]:
        chosen = learner(list(logs), threshold)
        if len(chosen) > len(logs) or not set(chosen) <= {log.log_id for log in logs}:
            raise Refused(_worth_rule((logs, threshold), chosen))
        return chosen

    with patch.object(script, "logs_to_compact", chosen_of):
        crashes = must_survive("What lives in a log must survive its compaction.", TWO_LOGS)
    return (
        f"A bookie that compacts what you chose lost nothing in {len(crashes.points)} crashes, each"
        f" in {len(crashes.variants)} ways."
    )


# In which order a compaction goes

COPY, SYNC, POINT, FLUSH, REMOVE = STEPS = (
    "copy what lives",
    "sync the copies",
    "point the index to the copies",
    "sync the index",
    "remove the old log",
)

# What breaks when the first step does not come before the second; the first match is reported.
_RULES = (
    (COPY, REMOVE, "What lives in a log must be copied before the log goes."),
    (COPY, SYNC, "A sync makes only what was copied before it durable."),
    (
        SYNC,
        REMOVE,
        "The old log may go only when the copies are synced: until then it has the only durable"
        " bytes.",
    ),
    (COPY, POINT, "The index can only point to copies that there are."),
    (POINT, FLUSH, "A sync of the index writes only what was changed before it."),
    (FLUSH, REMOVE, "A log may go only when no index on disk points into it."),
    (SYNC, FLUSH, "An index on disk must not point to bytes that a crash can still take away."),
    (SYNC, POINT, "An entry must be readable at any moment: the index may point only to what was"
     " written."),
)  # fmt: skip


@exercise(
    "garbage.compaction",
    hints=(
        "At every moment, and after a crash at every moment, the index on disk must point to bytes"
        " on disk. Which steps make bytes durable, which make them superfluous?",
        "It is the order of a checkpoint (lesson 04) again: bytes before pointers. What cannot be"
        " taken back comes last.",
        "Copy and sync the copies; then point to them and sync that; only then does nothing point"
        " into the old log any more.",
    ),
)
def compaction(learner: Sequence[str]) -> str:
    """No log goes that an index on disk points to, and every entry is readable at any moment."""
    order = in_order(STEPS, learner)
    rule = next((r for a, b, r in _RULES if order.index(a) > order.index(b)), "")
    crashes = crash_map(TWO_LOGS, store_factory=_in_order(order))
    smallest = crashes.smallest()
    if smallest is not None:
        raise Refused(rule, CrashCounterexample(smallest, crashes))
    reading = _in_order(order, rule_of_reads=rule or "An entry must be readable at any moment.")
    ScriptedBookie(new_machine(Fuse()), reading, CONFIG).run(TWO_LOGS)
    return (
        f"Nothing lost in {len(crashes.points)} crashes, each in {len(crashes.variants)} ways, and"
        " every entry readable after every step."
    )


class ReorderedCompaction(GarbageCollector):
    """Does the steps of a compaction in another order, the removal of the log included.

    With `rule_of_reads` it reads what it moved after each step, and refuses with that rule.
    """

    order: Sequence[str] = STEPS
    rule_of_reads = ""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._gone: set[int] = set()

    def compact(self, log_id: int, batch_entries: int) -> Iterator[Copied]:
        self._moved: list[tuple[int, int, int, int]] = []
        actions: dict[str, Callable[[], None]] = {
            COPY: lambda: self._copy(log_id),
            SYNC: self.entry_logger.sync,
            POINT: self._point,
            FLUSH: self.ledgers.flush,
            REMOVE: lambda: self._remove(log_id),
        }
        for step in self.order:
            actions[step]()
            if self.rule_of_reads:
                self._read_after(step)
        yield Copied(0, 0)

    def remove_log(self, log_id: int) -> None:
        if log_id not in self._gone:
            super().remove_log(log_id)

    def _copy(self, log_id: int) -> None:
        for entry in scan_entry_log(self.entry_logger.disk_of(log_id), log_id):
            old = location_of(log_id, entry.offset + 4)
            ledger = self.ledgers.get(entry.ledger_id)
            if ledger is not None and ledger.index.location(entry.entry_id) == old:
                [new] = self.entry_logger.append(entry.ledger_id, [entry.data])
                self._moved.append((entry.ledger_id, entry.entry_id, old, new))

    def _point(self) -> None:
        for ledger_id, entry_id, _, new in self._moved:
            ledger = self.ledgers.get(ledger_id)
            if ledger is not None:
                ledger.index.set_locations([entry_id], [new])

    def _remove(self, log_id: int) -> None:
        super().remove_log(log_id)
        self._gone.add(log_id)

    def _read_after(self, step: str) -> None:
        for ledger_id, entry_id, _, _ in self._moved:
            ledger = self.ledgers.get(ledger_id)
            try:
                if ledger is not None:
                    self.entry_logger.read(ledger.index.location(entry_id), ledger_id, entry_id)
            except StorageDamagedException as error:
                story = f"a read of entry {entry_id} of ledger {ledger_id} after '{step}':\n{error}"
                raise Refused(self.rule_of_reads, story) from None


def _in_order(steps: Sequence[str], rule_of_reads: str = "") -> StoreFactory:
    class Ordered(LedgerStore):
        """Compacts in the learner's order."""

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.garbage = ReorderedCompaction(self.entry_logger, self.ledgers)
            self.garbage.order, self.garbage.rule_of_reads = steps, rule_of_reads

    return Ordered
