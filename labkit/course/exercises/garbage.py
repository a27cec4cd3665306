"""The exercises of lesson 10: which ledgers to drop, which logs to compact, and the order of a
compaction's steps.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest.mock import patch

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import exercise, require_permutation
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import storage as generated
from labkit.course.runs.bookie.ledger_race import DELETED, LIVING, LedgerRace
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
from labkit.worlds.sim.machine.disk import DiskController
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
"""A script in which two ledgers share two logs, and then one of the ledgers is deleted."""


# Which ledgers to drop


def ledgers_to_drop(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    """Return the ledgers that have been deleted.

    list_stored lists the ledgers on the bookie, and ask_existing lists the ledgers in the metadata
    store.
    """
    stored = list_stored()
    return deleted_ledgers(stored, ask_existing())


def _drop_during_creation(
    learner: Dropped, stored: list[int], deleted: list[int], created: list[int]
) -> set[int]:
    """Call the learner's function while a client creates ledgers between the function's two
    queries.
    """
    query_count = 0

    def list_stored() -> list[int]:
        nonlocal query_count
        query_count += 1
        return stored + created * (query_count > 1)

    def ask_existing() -> set[int]:
        nonlocal query_count
        query_count += 1
        return set(stored) - set(deleted) | set(created * (query_count > 1))

    return set(learner(list_stored, ask_existing))


_KEEP_EXISTING = "A ledger that is in the metadata must be kept."
_KEEP_NEW = (
    "A ledger that is created between your two queries must be kept: its entries have been"
    " acknowledged."
)
_DROP = "A ledger that is not in the metadata must be dropped, or the disk will remain full."


def _drop_rule(case: Arguments, dropped: set[int]) -> str:
    _, deleted, created = case
    if dropped & set(created):
        return _KEEP_NEW
    return _DROP if set(deleted) - dropped else _KEEP_EXISTING


def _describe_race(case: Arguments) -> str:
    stored, deleted, created = case
    race = f", while a client creates {created} between the two queries" if created else ""
    return f"about a bookie that stores {stored}, of which {deleted} have been deleted{race}"


@exercise(
    "garbage.dropped",
    hints=(
        "A ledger is garbage if the bookie stores it and the metadata store does not. But you make"
        " two queries, and clients can create ledgers between them.",
        "A client first creates a ledger in the metadata store and then adds entries to it. Which"
        " of your two lists can safely be older than the other?",
        "List the stored ledgers first and then query the metadata store: every stored ledger was"
        " created before your second query. If the metadata store raises an error, let it"
        " propagate.",
    ),
    like=ledgers_to_drop,
    cases=Cases(
        generated.changing_ledgers,
        ledgers_to_drop,
        _drop_rule,
        run_case=_drop_during_creation,
        describe=_describe_race,
    ),
)
def dropped(learner: Dropped) -> str:
    """Deleted ledgers are dropped, and existing ledgers are kept regardless of when they were
    created.
    """
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
            "Drop no ledgers if the metadata store cannot tell you which ones exist.",
            "\n".join(race.story),
        )
    return (
        f"In {len(moments)} races with a client, only the deleted ledger was dropped, and none"
        " while the metadata store was not responding."
    )


def _judge(race: LedgerRace, gone: list[int]) -> None:
    story = "\n".join([*race.story, *(f"entry 0 of ledger {i} is lost" for i in gone)])
    if LIVING in gone:
        raise Refused(_KEEP_EXISTING, story)
    if gone:
        raise Refused(_KEEP_NEW, story)
    if DELETED in race.stored:
        raise Refused(_DROP, story)


# Which logs to compact


def _worth_rule(case: Arguments, chosen: list[int]) -> str:
    logs, threshold = case
    share = {log.log_id: log.usage for log in logs}
    expected = set(logs_to_compact(logs, threshold))
    if not set(chosen) <= set(share):
        return _NO_SUCH_LOG
    if any(share[each] == 0 for each in chosen):
        return "A log without live entries needs no compaction: it is simply deleted."
    if any(share[each] == 1 for each in chosen):
        return "A log without garbage must be left alone: copying it frees no space."
    if set(chosen) - expected:
        return "A log whose live share is at or above the threshold must be left alone."
    if expected - set(chosen):
        return "A log whose live share is below the threshold is worth compacting."
    return "Return each log once, in order of its live share (not of its bytes), emptiest first."


_NO_SUCH_LOG = "Return a list of ids of existing logs."


def _bars(case: Arguments, _: list[int]) -> LogUsage:
    bars = []
    for log in case[0]:
        dead = log.total_bytes - sum(log.ledger_bytes.values())
        parts = {**log.ledger_bytes, DELETED: dead} if dead else log.ledger_bytes
        bars.append(LogBar(log_name(log.log_id), parts))
    return LogUsage(bars, {ledger for log in case[0] for ledger in log.ledger_bytes})


def _by_tenths(case: Arguments, chosen: list[int]) -> tuple[list[int], list[int]]:
    """Return the chosen logs sorted by id, followed by the usage of each log (in tenths, rounded
    down) in the order in which the logs were chosen. Two answers therefore count as equal if they
    differ only in the order of logs with the same rounded usage.
    """
    tenth = {log.log_id: min(9, int(10 * log.usage)) for log in case[0]}
    return sorted(chosen), [tenth.get(each, -1) for each in chosen]


def _worth_words(case: Arguments) -> str:
    logs, threshold = case
    usages = ", ".join(
        f"log {log.log_id} ({sum(log.ledger_bytes.values())} of {log.total_bytes} bytes live)"
        for log in logs
    )
    return f"about {usages or 'no logs'}, with the threshold {threshold}"


@exercise(
    "garbage.worth",
    hints=(
        "log.usage is the live share of a log, from 0 to 1. A log is worth compacting if its usage"
        " is below the threshold.",
        "Leave out logs without live entries: they are deleted without compaction. Logs that free"
        " the most space per byte copied come first.",
        "Select the logs with 0 < log.usage < threshold, sort them by log.usage, and return their"
        " log.log_id.",
    ),
    like=logs_to_compact,
    cases=Cases(
        generated.used_logs,
        logs_to_compact,
        _worth_rule,
        comparable=_by_tenths,
        describe=_worth_words,
        picture=_bars,
    ),
)
def worth(learner: Worth) -> str:
    """Logs that contain live entries are compacted if their live share is below the threshold,
    emptiest first.
    """

    def chosen_of(logs: list[EntryLogMetadata], threshold: float) -> list[int]:
        chosen = learner(list(logs), threshold)
        if len(chosen) > len(logs) or not set(chosen) <= {log.log_id for log in logs}:
            raise Refused(_worth_rule((logs, threshold), chosen))
        return chosen

    with patch.object(script, "logs_to_compact", chosen_of):
        crashes = must_survive("The live entries of a log must survive its compaction.", TWO_LOGS)
    return (
        f"A bookie that compacts the logs of your choice lost nothing in {len(crashes.variants)}"
        f" kinds of crashes at each of {len(crashes.points)} moments."
    )


# The order of a compaction

COPY, SYNC, POINT, FLUSH, REMOVE = STEPS = (
    "copy the live entries",
    "sync the copies",
    "point the index to the copies",
    "sync the index",
    "remove the old log",
)

# A rule is broken unless its first step precedes its second step. Only the first broken rule is
# reported.
_RULES = (
    (COPY, REMOVE, "The live entries must be copied before the old log is deleted."),
    (COPY, SYNC, "The entries must be copied before the copies can be synced."),
    (
        SYNC,
        REMOVE,
        "The copies must be synced before the old log is deleted: until then, only the old log is"
        " durable.",
    ),
    (COPY, POINT, "The entries must be copied before the index can point to the copies."),
    (POINT, FLUSH, "The index must be changed before it is synced."),
    (FLUSH, REMOVE, "A log can be deleted only if no index on disk points to it."),
    (SYNC, FLUSH, "An index on disk must not point to bytes that a crash can still destroy."),
    (
        SYNC,
        POINT,
        "Every entry must be readable at all times, so the index may only point to entries that"
        " have been written.",
    ),
)


@exercise(
    "garbage.compaction",
    hints=(
        "At all times, even after a crash, the index on disk must point to bytes that are on disk."
        " Which steps make bytes durable, and which make them unnecessary?",
        "As in a checkpoint (lesson 04), bytes come before pointers. The step that cannot be undone"
        " comes last.",
        "Copy the entries and sync the copies. Then change the index and sync it. Only then does"
        " nothing point to the old log.",
    ),
)
def compaction(learner: Sequence[str]) -> str:
    """No log is deleted while an index on disk still points to it, and all entries remain
    readable.
    """
    order = require_permutation(STEPS, learner)
    rule = next((r for a, b, r in _RULES if order.index(a) > order.index(b)), "")
    crashes = crash_map(TWO_LOGS, store_factory=_in_order(order))
    smallest = crashes.smallest()
    if smallest is not None:
        raise Refused(rule, CrashCounterexample(smallest, crashes))
    reading = _in_order(order, rule_of_reads=rule or "Every entry must be readable at all times.")
    ScriptedBookie(new_machine(DiskController()), reading, CONFIG).run(TWO_LOGS)
    return (
        f"Nothing was lost in {len(crashes.variants)} kinds of crashes at each of"
        f" {len(crashes.points)} moments, and every entry was readable after every step."
    )


class ReorderedCompaction(GarbageCollector):
    """Runs the steps of a compaction, including the deletion of the old log, in a given order.

    If `rule_of_reads` is set, the collector reads all moved entries after each step, and raises
    `Refused` with this rule if a read fails.
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
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.garbage = ReorderedCompaction(self.entry_logger, self.ledgers)
            self.garbage.order, self.garbage.rule_of_reads = steps, rule_of_reads

    return Ordered
