"""Tests `recover` with generated responses from bookies."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import combinations_with_replacement

from labkit.course.checking.exercise import Refused
from labkit.course.exercises.generated.cluster import reports
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
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.worlds.sim.machine.loop import DeadlockError

_COUNT = 200
_PAYLOAD = b"four"
_ERRORS: tuple[type[BKException], ...] = (
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKTimeoutException,
    BKBookieHandleNotAvailableException,
    BKReadException,
    BKDigestMatchException,
)

Response = Entry | BKException


class _LedgerToRecover(ScriptedCluster):
    """A ledger whose writer has died. Its bookies respond at once, and store all adds.

    respond: returns a bookie's response to a read; entry -1 stands for its newest entry
    limit: a read of any other entry gets no response, because the test would not end otherwise
    """

    def __init__(
        self, metadata: LedgerMetadata, respond: Callable[[str, int], Response], limit: range
    ) -> None:
        super().__init__(metadata)
        self.read: list[int] = []
        self._respond, self._limit = respond, limit

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        if entry_id != NO_ENTRY_ID:
            self.read.append(entry_id)
            if entry_id not in self._limit:
                await asyncio.get_running_loop().create_future()
        response = self._respond(bookie, entry_id)
        if isinstance(response, BKException):
            raise response
        return response

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        return await self.read_entry(bookie, NO_ENTRY_ID, fence=fence)

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        pass

    def end_of(self, learner: Learner) -> int | BKException | None:
        """Let the learner recover the ledger, and return its last entry.

        Returns the error if the recovery fails, and None if it waits for ever.
        """

        async def run() -> None:
            with learner.recording_errors(may_raise=(BKException,)):
                await learner.part("recover")(self)

        try:
            self.run(run())
        except BKException as error:
            return error
        except DeadlockError:
            return None
        return self.metadata.last_entry_id if self.metadata.state is LedgerState.CLOSED else None


def _entry(entry_id: int) -> Entry:
    return Entry(0, entry_id, entry_id - 1, (entry_id + 1) * len(_PAYLOAD), _PAYLOAD)


# Where recovery starts

Reports = tuple[list[int], int]
"""The LastAddConfirmed in the newest entry of each bookie, and the start of the last segment."""


def recovery_starts_after_lac(learner: Learner) -> str:
    """Check which entry is read first, and where the ledger ends."""
    try_generated(reports, _COUNT, partial(_start_problem, learner), _reported)
    return f"Right for {_COUNT} generated reports of fenced bookies."


def _start_problem(learner: Learner, case: Reports) -> Problem | None:
    reported, first = case
    size = max(1, len(reported))
    old, new = (tuple(f"{letter}{index}" for index in range(size)) for letter in "ab")
    segments = (Segment(0, old), Segment(first, new)) if first else (Segment(0, new),)
    start = max(*reported, first - 1, NO_ENTRY_ID)

    def respond(bookie: str, entry_id: int) -> Response:
        index = int(bookie[1:])
        if bookie in old:
            has = entry_id < first
        else:
            has = index < len(reported) and entry_id <= reported[index] + 1
        if entry_id == NO_ENTRY_ID and has:
            return _entry(first - 1 if bookie in old else reported[index] + 1)
        return _entry(entry_id) if has else BKNoSuchEntryException(bookie)

    # Any bookie may have acknowledged an entry alone (Qa is 1), so recovery needs all reports.
    metadata = LedgerMetadata(size, size, 1, segments)
    cluster = _LedgerToRecover(metadata, respond, range(start, start + 3))
    end = cluster.end_of(learner)
    read_first = cluster.read[0] if cluster.read else start
    if read_first < start:
        return contract.LOWER_BOUND, f"the first entry that you read is {read_first}"
    right = max([start, *(each + 1 for each in reported)])
    how = f"expected the ledger to be closed at entry {right}, got {_outcome(end)}"
    if read_first > start + 1 or (isinstance(end, int) and end != right):
        return contract.PROVEN, how
    return (contract.DECIDES, how) if end != right else None


def _reported(case: Reports, how: str) -> str:
    reported, first = case
    each = ", ".join(map(str, reported)) or "none, because they have no entries"
    return (
        f"the last segment starts at entry {first}; its bookies report these values of"
        f" LastAddConfirmed: {each}\n{how}"
    )


# What the responses prove

_METADATA = LedgerMetadata(3, 3, 2, (Segment(0, ("b0", "b1", "b2")),))
_LAST = 3
"""Entry 3 is confirmed, and some bookies may have entry 4."""


def responses_decide_where_the_ledger_ends(learner: Learner) -> str:
    """Check the end of a ledger after all combinations of responses to a read of its last entry."""
    cases = list(combinations_with_replacement((None, *_ERRORS), 3))
    for responses in cases:
        _try_responses(learner, responses)
    return f"{len(cases)} combinations of responses were interpreted correctly."


def _try_responses(learner: Learner, responses: tuple[type[BKException] | None, ...]) -> None:
    def respond(bookie: str, entry_id: int) -> Response:
        error = responses[int(bookie[1:])]
        if entry_id == NO_ENTRY_ID:
            return _entry(_LAST + 1 if error is None else _LAST)
        if entry_id == _LAST + 1 and error is not None:
            return error(bookie)
        return _entry(entry_id) if entry_id <= _LAST + 1 else BKNoSuchEntryException(bookie)

    end = _LedgerToRecover(_METADATA, respond, range(_LAST + 3)).end_of(learner)
    denials = sum(error is not None and issubclass(error, PROVES_ABSENCE) for error in responses)
    # The order in which the responses arrive decides if both ends are possible.
    right = [_LAST] * (denials >= 2) + [_LAST + 1] * (None in responses)
    if end in right or (not right and isinstance(end, BKException)):
        return
    names = [error.__name__ if error else "the entry" for error in responses]
    case = (
        f"E=3, Qw=3, Qa=2; entry {_LAST} is confirmed; the responses for entry {_LAST + 1} are"
        f" {', '.join(names)}\n"
    )
    ends = [f"the ledger to be closed at entry {each}" for each in right] or ["an error"]
    is_proof = bool(right) and not isinstance(end, int)
    raise Refused(
        contract.DECIDES if is_proof else contract.PROVEN,
        f"{case}expected {' or '.join(ends)}, got {_outcome(end)}",
    )


def _outcome(end: int | BKException | None) -> str:
    if isinstance(end, int):
        return f"the ledger closed at entry {end}"
    return type(end).__name__ if end else "a recovery that waits for ever"
