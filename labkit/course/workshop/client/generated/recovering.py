"""Tests `recover` with generated ledgers whose writer has died."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.recovery_rules import RecoveryRules
from labkit.course.workshop.client.generated.scripted_cluster import (
    ERRORS,
    ScriptedCluster,
    draw_sizes,
    shown_segments,
    shown_sizes,
    shown_state,
    write_set_of,
)
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.client.quorum import is_covered
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.worlds.sim.machine.loop import DeadlockError

_COUNT = 400
_PATIENCE_S = 600.0
_PAYLOADS = (b"four", b"", b" seven\n", b"xy")


class _Fails(Enum):
    """The requests to a bookie that fail."""

    NONE = "none"
    ALL = "all"
    FIRST = "the first one"
    LATER = "all but the first one"
    ADDS = "adds"


_RETURNING = _Fails.NONE, _Fails.ADDS
_ERRORS = tuple(error for error in ERRORS if error not in PROVES_ABSENCE)


class _Other(Enum):
    """What another client does just before `recover` reads or writes the metadata."""

    NOTHING = auto()
    MARKS = auto()
    CHANGES_ENSEMBLE = auto()
    CLOSES = auto()


@dataclass(frozen=True, slots=True)
class _Bookie:
    fails: _Fails
    error: type[BKException]
    delay_ms: int


@dataclass(frozen=True, slots=True)
class LostLedger:
    """A ledger to recover.

    confirmed: the last entry that was confirmed; copies: the entries that each bookie has
    others: what another client does before each of `recover`'s metadata accesses
    """

    metadata: LedgerMetadata
    new_ensemble: Segment
    confirmed: int
    packed: tuple[Entry, ...]
    copies: tuple[tuple[str, frozenset[int]], ...]
    bookies: tuple[tuple[str, _Bookie], ...]
    others: tuple[_Other, ...]


def lost_ledger(draw: Draw, *, may_fail: bool = True) -> LostLedger:
    """Return a ledger to recover. If `may_fail` is false, no request fails."""
    size, write_quorum, ack_quorum = draw_sizes(draw)
    confirmed = draw.number(0, 5) - 1
    segments = [Segment(0, tuple(f"a{index}" for index in range(size)))]
    if confirmed >= 0 and draw.number(0, 1):
        second = tuple(f"b{index}" for index in range(size))
        segments.append(Segment(draw.number(1, confirmed + 1), second))
    new = Segment(confirmed + 1, tuple(f"c{index}" for index in range(size)))
    metadata = LedgerMetadata(size, write_quorum, ack_quorum, tuple(segments))
    packed = _entries(draw, confirmed, draw.number(0, 3))
    copies = _copies(draw, metadata, new, confirmed, len(packed))
    names = [name for each in (*segments, new) for name in each.ensemble]
    # The bookies respond at different times, so a recovery has to decide after each response.
    order = draw.shuffled(names)
    bookies = {name: _Bookie(_Fails.NONE, _ERRORS[0], 1 + order.index(name)) for name in names}
    # Most requests are sent to the last ensemble.
    failing = (*names, *segments[-1].ensemble)
    for _ in range(draw.number(0, 4) if may_fail else 0):
        name = draw.one_of(failing)
        fails, error = draw.one_of(tuple(_Fails)), draw.one_of(_ERRORS)
        bookies[name] = replace(bookies[name], fails=fails, error=error)
    kinds = [_Other.NOTHING, _Other.MARKS, _Other.CHANGES_ENSEMBLE]
    kinds += [_Other.CLOSES] if draw.chance(30) else []
    others = tuple(draw.one_of(kinds) for _ in range(draw.number(0, 8)))
    state = draw.one_of((*(LedgerState.OPEN,) * 4, LedgerState.IN_RECOVERY, LedgerState.CLOSED))
    if state is LedgerState.CLOSED:
        metadata = metadata.closed(confirmed, packed[confirmed].length if confirmed >= 0 else 0)
    else:
        metadata = replace(metadata, state=state)
    return LostLedger(metadata, new, confirmed, packed, copies, tuple(bookies.items()), others)


def _entries(draw: Draw, confirmed: int, unconfirmed: int) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for entry_id in range(confirmed + 1 + unconfirmed):
        payload = _PAYLOADS[draw.number(0, len(_PAYLOADS) - 1)]
        length = (entries[-1].length if entries else 0) + len(payload)
        # An entry that another recovery wrote back may carry a smaller LastAddConfirmed.
        last = draw.number(NO_ENTRY_ID, min(entry_id - 1, confirmed))
        entries.append(Entry(ScriptedCluster.ledger_id, entry_id, last, length, payload))
    return tuple(entries)


def _copies(
    draw: Draw, metadata: LedgerMetadata, new: Segment, confirmed: int, count: int
) -> tuple[tuple[str, frozenset[int]], ...]:
    copies: dict[str, set[int]] = {}
    with_new = replace(metadata, segments=(*metadata.segments, new))
    for entry_id in range(count):
        if entry_id <= confirmed:
            names = draw.shuffled(write_set_of(metadata, entry_id))
            least = metadata.ack_quorum
        else:
            # Before the writer died, it may also have changed the ensemble.
            every = {*write_set_of(metadata, entry_id), *write_set_of(with_new, entry_id)}
            names, least = draw.shuffled(sorted(every)), 0
        for name in names[: draw.number(least, len(names))]:
            copies.setdefault(name, set()).add(entry_id)
    return tuple((name, frozenset(entries)) for name, entries in sorted(copies.items()))


class LedgerToRecover(ScriptedCluster):
    """The generated ledger. `problem` is the first violation of the contract, and `log` describes
    what has happened.
    """

    def __init__(self, case: LostLedger) -> None:
        super().__init__(case.metadata)
        self.problem: Refused | None = None
        self.log: list[str] = []
        self.has_given_up = False
        """Whether nothing has been asked since the last conflict."""
        self._case = case
        self._rules = RecoveryRules(list(case.packed))
        self._rules.knows_version(self.version)
        self._copies, self._bookies = dict(case.copies), dict(case.bookies)
        self._others = list(case.others)
        self._was_asked: set[str] = set()

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        await asyncio.sleep(0.001)
        self._let_other_client_act()
        self._rules.knows_version(self.version)
        return await super().read_metadata()

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        await asyncio.sleep(0.001)
        self._let_other_client_act()
        if version == self.version:
            with self._keeping():
                self._rules.writes(self.metadata, metadata, version)
        else:
            self.has_given_up = True
        self.log.append(f"write_metadata: {_state_of(metadata)}")
        new_version = await super().write_metadata(metadata, version)
        self._rules.knows_version(new_version)
        return new_version

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        return await self.read_entry(bookie, NO_ENTRY_ID, fence=fence)

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        with self._keeping():
            self._rules.asks(self.metadata, bookie, entry_id, fence=fence)
        self.has_given_up = False
        what = "its newest entry" if entry_id == NO_ENTRY_ID else f"entry {entry_id}"
        try:
            entry = await self._response(bookie, entry_id)
        except BKException as error:
            if isinstance(error, PROVES_ABSENCE):
                self._rules.denied(bookie, entry_id, fence=fence)
            self.log.append(f"{bookie} is asked for {what}: {type(error).__name__}")
            raise
        self._rules.returned(bookie, entry_id, entry, fence=fence)
        self.log.append(
            f"{bookie} is asked for {what}: entry {entry.entry_id}, which carries"
            f" {entry.last_add_confirmed}"
        )
        return entry

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        with self._keeping():
            self._rules.writes_back(self.metadata, bookie, entry, recovery=recovery)
        try:
            await self._wait_for(bookie)
            if self._bookies[bookie].fails is _Fails.ADDS:
                raise self._bookies[bookie].error(bookie)
        except BKException as error:
            how = f"{bookie} responds to the add of entry {entry.entry_id}"
            self.log.append(f"{how}: {type(error).__name__}")
            raise
        self._rules.written_back(bookie, entry.entry_id)
        self.log.append(f"{bookie} stores entry {entry.entry_id}")

    async def _response(self, bookie: str, entry_id: int) -> Entry:
        await self._wait_for(bookie)
        copies = self._copies.get(bookie, frozenset())
        if not copies:
            raise BKNoSuchLedgerExistsException(bookie)
        wanted = max(copies) if entry_id == NO_ENTRY_ID else entry_id
        if wanted not in copies:
            raise BKNoSuchEntryException(bookie)
        return self._case.packed[wanted]

    async def _wait_for(self, bookie: str) -> None:
        """Wait until the bookie responds. Raises the bookie's error if this request fails."""
        known, is_first = self._bookies[bookie], bookie not in self._was_asked
        self._was_asked.add(bookie)
        await asyncio.sleep(known.delay_ms / 1000)
        failing = _Fails.ALL, _Fails.FIRST if is_first else _Fails.LATER
        if known.fails in failing:
            raise known.error(bookie)

    def _let_other_client_act(self) -> None:
        stored = self.metadata
        other = self._others.pop(0) if self._others else _Other.NOTHING
        if other is _Other.NOTHING or stored.state is LedgerState.CLOSED:
            return
        changed = replace(stored, state=LedgerState.IN_RECOVERY)
        if other is _Other.CHANGES_ENSEMBLE:
            if stored.state is not LedgerState.OPEN or self._case.new_ensemble in stored.segments:
                return
            new = self._case.new_ensemble
            earlier = [each for each in stored.segments if each.first_entry_id < new.first_entry_id]
            changed = replace(stored, segments=(*earlier, new))
        elif other is _Other.CLOSES:
            last = self._case.confirmed
            changed = stored.closed(last, self._case.packed[last].length if last >= 0 else 0)
        self.change_metadata(changed)
        self.log.append(f"another client writes the metadata: {_state_of(changed)}")

    @contextmanager
    def _keeping(self) -> Iterator[None]:
        # The learner's code would catch the exception if it were raised here.
        try:
            yield
        except Refused as refused:
            self.problem = self.problem or refused

    def may_fail(self) -> bool:
        """Return whether the recovery may fail, because the bookies that are certain to respond may
        not suffice to determine the last entry.
        """
        metadata, quorum = self.metadata, self.metadata.ack_quorum
        fencing = [
            index
            for index, name in enumerate(metadata.segments[-1].ensemble)
            if self._bookies[name].fails in (_Fails.NONE, _Fails.LATER, _Fails.ADDS)
        ]
        if not is_covered(fencing, metadata.ensemble_size, metadata.write_quorum, quorum):
            return True
        for entry_id in range(len(self._case.packed) + 1):
            names = write_set_of(metadata, entry_id)
            have = [each for each in names if entry_id in self._copies.get(each, ())]
            readable = [each for each in names if self._bookies[each].fails in _RETURNING]
            writable = [each for each in names if self._bookies[each].fails is _Fails.NONE]
            is_denied = len({*readable} - {*have}) > metadata.write_quorum - quorum
            if not have:
                return not is_denied
            if len(writable) < quorum or not (is_denied or {*have} & {*readable}):
                return True
        return True


def recovery_follows_the_contract(learner: Learner) -> str:
    """Check each request that a recovery sends, and the recovery's result."""
    try_generated(learner, lost_ledger, _COUNT, _test_recover, shown)
    return f"Right for {_COUNT} generated ledgers."


def _test_recover(learner: Learner, case: LostLedger) -> None:
    cluster = LedgerToRecover(case)

    async def run() -> object:
        with learner.recording_errors(may_raise=(BKException,)):
            async with asyncio.timeout(_PATIENCE_S):
                return await learner.part("recover")(cluster)

    try:
        result: object = cluster.run(run())
    except (BKException, TimeoutError, DeadlockError) as error:
        result = error
    problem = cluster.problem
    if problem is not None:
        how = "\n".join((*cluster.log, str(problem.counterexample)))
        raise Refused(problem.message, how)
    line = _line_of_wrong_result(cluster, result)
    if not line:
        return
    outcome = f"raises {type(result).__name__}"
    if isinstance(result, TimeoutError | DeadlockError):
        outcome = "waits for ever"
    elif not isinstance(result, Exception):
        outcome = f"returns {_state_of(result) if isinstance(result, LedgerMetadata) else result!r}"
    how = f"`recover` {outcome}; the stored metadata are {_state_of(cluster.metadata)}"
    raise Refused(line, "\n".join((*cluster.log, how)))


def _line_of_wrong_result(cluster: LedgerToRecover, result: object) -> str:
    """Return the line that the result violates, or ""."""
    stored = cluster.metadata
    if stored.state is LedgerState.CLOSED:
        return "" if result == stored else contract.FIRST_CLOSES
    if cluster.has_given_up:
        return contract.RETRIES
    is_error = isinstance(result, BKException) and stored.state is LedgerState.IN_RECOVERY
    return "" if is_error and cluster.may_fail() else contract.DECIDES


def _state_of(metadata: LedgerMetadata) -> str:
    return f"{shown_state(metadata)}; {shown_segments(metadata)}"


def shown(case: LostLedger) -> str:
    metadata = case.metadata
    copies = "; ".join(
        f"{name} has {', '.join(map(str, sorted(entries)))}" for name, entries in case.copies
    )
    bad = "; ".join(
        f"requests to {name} that fail: {each.fails.value}"
        for name, each in case.bookies
        if each.fails is not _Fails.NONE
    )
    return (
        f"{shown_sizes(metadata)}; {_state_of(metadata)}; entries up to {case.confirmed} are"
        " confirmed\n"
        f"copies: {copies or 'none'}; {bad or 'no request fails'}"
    )
