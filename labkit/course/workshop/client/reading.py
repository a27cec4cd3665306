"""Tests `Reader` with bookies and metadata that respond according to a script."""

from collections.abc import Coroutine
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, TypeVar

from labkit.course.checking.exercise import Refused
from labkit.course.exercises.generated.cluster import newest_entries
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.scripted_cluster import ScriptedCluster
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKBookieHandleNotAvailableException,
    BKDigestMatchException,
    BKException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
    BKTimeoutException,
)
from labkit.system.model.ledger import LedgerMetadata, Segment
from labkit.worlds.sim.machine.loop import DeadlockError

T = TypeVar("T")

_METADATA = LedgerMetadata(
    4, 3, 2, (Segment(0, ("b0", "b1", "b2", "b3")), Segment(6, ("b4", "b5", "b6", "b7")))
)
_WRITE_SETS = {3: ("b3", "b0", "b1"), 6: ("b6", "b7", "b4"), 7: ("b7", "b4", "b5")}
"""By entry id: 3 is in the first segment, and 6 and 7 are the first entries of the second."""
_ERRORS: tuple[type[BKException], ...] = (
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKTimeoutException,
    BKReadException,
    BKBookieHandleNotAvailableException,
    BKDigestMatchException,
)


IN_WRITE_SET = (
    "An entry is requested only from the bookies of its write set, in the ensemble of its segment."
)
ONE_BY_ONE = "The bookies are asked one after the other until one returns the entry."
ANY_COPY = "A copy that cannot be read does not matter as long as another copy can be read."
PROOF = (
    "`PROVES_ABSENCE` is raised only if all bookies of the write set deny having the entry. A"
    " bookie that is silent or down, or cannot read its copy, proves nothing, so its error is"
    " raised."
)
ALL_DENY = "If all bookies of the write set deny having the entry, `PROVES_ABSENCE` is raised."


class _GrowingLedger(ScriptedCluster):
    """A ledger whose bookies report their segment's LastAddConfirmed; records which bookies were
    asked.
    """

    def __init__(self, metadata: LedgerMetadata) -> None:
        super().__init__(metadata)
        self.asked: list[str] = []

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        self.asked.append(bookie)
        lac = 4 if bookie in _METADATA.segments[0].ensemble else 8
        return Entry(0, lac + 1, lac, 80, b"")


def last_add_confirmed_is_current(learner: Learner) -> str:
    """Check that a reader asks the last ensemble, and notices when the metadata change."""
    old = replace(_METADATA, segments=_METADATA.segments[:1])
    changed = (
        f"the reader begins with {old.segments}; by now, the metadata has {_METADATA.segments}"
    )
    for known, line, case in (
        (_METADATA, contract.LAST_ENSEMBLE, f"the segments are {_METADATA.segments}"),
        (old, contract.CURRENT, changed),
    ):
        cluster = _GrowingLedger(_METADATA)
        _read_last_add_confirmed(learner, cluster, known)
        if set(cluster.asked) - set(_METADATA.segments[-1].ensemble):
            raise Refused(line, f"{case}\nyou asked {cluster.asked}")
    cluster = _GrowingLedger(_METADATA.closed(9, 80))
    last = _read_last_add_confirmed(learner, cluster, _METADATA)
    if last != 9:
        raise Refused(
            contract.CURRENT,
            f"the ledger has been closed at entry 9 since the reader began\nyou returned {last}",
        )
    return "The last ensemble was asked, also after the metadata had changed."


def _read_last_add_confirmed(
    learner: Learner, cluster: _GrowingLedger, known: LedgerMetadata
) -> object:
    async def read() -> object:
        with learner.recording_errors():
            return await learner.part("Reader")(cluster, known).read_last_add_confirmed()

    return _run(cluster, read())


def _run(cluster: ScriptedCluster, read: Coroutine[Any, Any, T]) -> T:
    try:
        return cluster.run(read)
    except DeadlockError:
        raise Refused(f"{contract.LEARNS} All bookies have responded.", "waits for ever") from None


Reports = tuple[int, list[tuple[int, int]]]
"""The LastAddConfirmed that a reader has learned before, and the bookies' newest entries by now,
each as its id and the LastAddConfirmed in it.
"""
_REPORTS_COUNT = 300


class _Reports(ScriptedCluster):
    """An open ledger on bookies that report these newest entries. Qa is 1, so a single bookie may
    have confirmed an entry, and a reader needs all responses.
    """

    def __init__(self, newest: list[tuple[int, int]], bookies: int) -> None:
        self.newest = newest
        self._names = tuple(f"b{index}" for index in range(bookies))
        super().__init__(LedgerMetadata(bookies, bookies, 1, (Segment(0, self._names),)))

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        index = self._names.index(bookie)
        if index >= len(self.newest):
            raise BKNoSuchLedgerExistsException(bookie)
        entry_id, lac = self.newest[index]
        return Entry(0, entry_id, lac, 80, b"")


def highest_report_counts(learner: Learner) -> str:
    """Check what a reader learns from generated responses."""
    try_generated(newest_entries, _REPORTS_COUNT, partial(_report_problem, learner), _reports)
    return f"Right for {_REPORTS_COUNT} generated reports of bookies."


def _report_problem(learner: Learner, case: Reports) -> Problem | None:
    known, newest = case
    bookies = max(1, len(newest))
    before = [] if known == NO_ENTRY_ID else [(known + 1, known)] * bookies
    cluster = _Reports(before, bookies)

    async def read_twice() -> tuple[object, object]:
        with learner.recording_errors():
            reader = learner.part("Reader")(cluster, cluster.metadata)
            first = await reader.read_last_add_confirmed()
            cluster.newest = newest
            return first, await reader.read_last_add_confirmed()

    try:
        found = _run(cluster, read_twice())
    except BKException as error:
        return contract.LEARNS, f"all bookies have responded, and yours raised {error!r}"
    right = max([known, *(lac for _, lac in newest)])
    for expected, got in zip((known, right), found, strict=True):
        if got == expected:
            continue
        how = f"expected {expected}, got {got!r}"
        if not isinstance(got, int) or got > expected:
            return contract.IS_CONFIRMED, how
        return (contract.NEVER_BACK if got < known else contract.LEARNS_ANY), how
    return None


def _reports(case: Reports, how: str) -> str:
    known, newest = case
    entries = ", ".join(f"entry {entry_id}, which carries {lac}" for entry_id, lac in newest)
    return (
        f"the reader has learned LastAddConfirmed {known}; now it asks again, and the bookies'"
        f" newest entries are: {entries or 'none'}\n{how}"
    )


class _FixedResponses(ScriptedCluster):
    """A cluster whose bookies give fixed responses; records which bookies were asked."""

    def __init__(self, answers: dict[str, type[BKException] | None]) -> None:
        super().__init__(_METADATA)
        self._answers = answers
        self.asked: list[str] = []

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        self.asked.append(bookie)
        error = self._answers.get(bookie, BKNoSuchLedgerExistsException)
        if error is not None:
            raise error(f"{bookie}, entry {entry_id}")
        return _expected_entry(entry_id)


def responses_determine_the_result(learner: Learner) -> str:
    """Check that `read_entry` returns the entry if any bookie of the write set has it.

    Otherwise, it must raise an error that reflects what is known.
    """
    answers = list(product((None, *_ERRORS), repeat=3))
    for entry_id, write_set in _WRITE_SETS.items():
        for case in answers:
            _try_case(learner, entry_id, dict(zip(write_set, case, strict=True)))
    return (
        f"{len(answers) * len(_WRITE_SETS)} combinations of responses were interpreted correctly."
    )


def _expected_entry(entry_id: int) -> Entry:
    return Entry(0, entry_id, entry_id - 1, 80, b"the entry")


def _try_case(
    learner: Learner, entry_id: int, answers: dict[str, type[BKException] | None]
) -> None:
    cluster = _FixedResponses(answers)
    responses = ", ".join(
        f"{bookie}: {error.__name__ if error else 'the entry'}" for bookie, error in answers.items()
    )
    case = f"Entry {entry_id} of {_METADATA.segments}; {responses}."
    try:
        result = cluster.run(_read(learner, cluster, entry_id))
    except DeadlockError:
        raise Refused(
            f"{ANY_COPY} Every bookie has responded, but `read_entry` waits for ever.", case
        ) from None
    case += f" You asked {cluster.asked}"
    stray = [bookie for bookie in cluster.asked if bookie not in answers]
    if stray:
        raise Refused(
            f"{IN_WRITE_SET} {stray[0]} is not in the write set of entry {entry_id}, which is"
            f" {', '.join(answers)}, the bookies at indexes {entry_id % 4}, {(entry_id + 1) % 4}"
            f" and {(entry_id + 2) % 4} of its segment's ensemble.",
            case,
        )
    gave = next((n for n, name in enumerate(cluster.asked) if answers[name] is None), -1)
    if 0 <= gave < len(cluster.asked) - 1:
        raise Refused(f"{ONE_BY_ONE} {cluster.asked[gave]} returned it.", case)
    if None in answers.values():
        if result != _expected_entry(entry_id):
            raise Refused(
                f"{ANY_COPY} A bookie has the entry, but the result of `read_entry` was"
                f" {result!r}.",
                case,
            )
        return
    _judge_error(result, [error for error in answers.values() if error is not None], case)


def _judge_error(result: object, errors: list[type[BKException]], case: str) -> None:
    if not isinstance(result, BKException):
        raise Refused(
            f"{PROOF if not _all_deny(errors) else ALL_DENY} No bookie returned the entry, so"
            f" `read_entry` must raise; it returned {result!r}.",
            case,
        )
    all_deny = _all_deny(errors)
    if isinstance(result, PROVES_ABSENCE) and not all_deny:
        raise Refused(
            f"{PROOF} Here, {type(result).__name__} claims a proof that does not exist.",
            case,
        )
    if all_deny and not isinstance(result, PROVES_ABSENCE):
        raise Refused(
            f"{ALL_DENY} Here, {type(result).__name__} hides the proof.",
            case,
        )


def _all_deny(errors: list[type[BKException]]) -> bool:
    return all(issubclass(error, PROVES_ABSENCE) for error in errors)


async def _read(learner: Learner, cluster: _FixedResponses, entry_id: int) -> object:
    with learner.recording_errors():
        try:
            return await learner.part("Reader")(cluster, _METADATA).read_entry(entry_id)
        except BKException as error:
            return error
