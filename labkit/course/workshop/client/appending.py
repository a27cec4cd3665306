"""Tests `append_all` with generated arrivals of payloads, acknowledgements and failures."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from itertools import count
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.manual_cluster import ManualCluster
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKLedgerFencedException, LabkitError
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment

_COUNT = 200
_BOOKIE = "b0"
_METADATA = LedgerMetadata(1, 1, 1, (Segment(0, (_BOOKIE,)),))


class _Move(Enum):
    ARRIVE = auto()
    """The next payload is available."""
    ACKNOWLEDGE = auto()
    END = auto()
    """There are no more payloads."""
    FENCE = auto()
    """Another client fences the bookie."""


@dataclass(frozen=True, slots=True)
class _Appends:
    """The window, and the moves, each of which has a number that selects the add to acknowledge."""

    window: int
    moves: tuple[tuple[_Move, int], ...]


def _recipe(draw: Draw) -> _Appends:
    window = draw.number(1, 4)
    moves: list[tuple[_Move, int]] = []
    kinds = [_Move.ARRIVE, _Move.ACKNOWLEDGE] * 4 + [_Move.FENCE] * draw.chance(30)
    while len(moves) < 20 and draw.number(0, 12):
        moves.append((draw.one_of(kinds), draw.number(0, 3)))
    return _Appends(window, (*moves, (_Move.END, 0)))


def payloads_are_appended(learner: Learner) -> str:
    """Check after each move which entries were sent and reported, and whether `append_all` has
    ended.
    """
    try_generated(learner, _recipe, _COUNT, partial(_problem, learner), lambda _case, how: how)
    return f"Right for {_COUNT} generated orders of payloads and acknowledgements."


def _problem(learner: Learner, case: _Appends) -> Problem | None:
    cluster = ManualCluster(_METADATA, ())

    async def play(log: list[str]) -> None:
        writer = learner.part("Writer")(cluster, _METADATA, cluster.version)
        await _Play(case, cluster, log).run(learner.part("append_all"), writer)

    return cluster.problem_in(learner, play)


class _Play:
    """One call of `append_all`."""

    def __init__(self, case: _Appends, cluster: ManualCluster, log: list[str]) -> None:
        self._case, self._cluster, self._log = case, cluster, log
        log.append(f"append_all() with a window of {case.window}")
        self._arrived = 0
        self._is_closed = False
        """Whether the ledger was closed when `append_all` returned."""
        self._has_ended = self._is_fenced = False
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._sent: list[Entry] = []
        self._reported: list[object] = []

    async def run(self, append_all: Any, writer: Any) -> None:
        """Make all moves, and then acknowledge the remaining adds. Raises `Refused` if a rule is
        broken.
        """
        appending = asyncio.create_task(self._append(append_all, writer))
        try:
            for move, number in self._case.moves:
                await self._play(move, number, appending)
            while self._cluster.waiting:
                await self._play(_Move.ACKNOWLEDGE, 0, appending)
        finally:
            appending.cancel()
            await asyncio.wait((appending,))

    async def _append(self, append_all: Any, writer: Any) -> None:
        await append_all(writer, self._payloads(), self._reported.append, self._case.window)
        self._is_closed = self._cluster.metadata.state is LedgerState.CLOSED

    async def _play(self, move: _Move, number: int, appending: "asyncio.Task[None]") -> None:
        happened = self._make(move, number)
        if happened:
            self._log.append(happened)
            await self._settle()
            self._check(appending)

    async def _payloads(self) -> AsyncIterator[bytes]:
        while (payload := await self._queue.get()) is not None:
            yield payload

    def _make(self, move: _Move, number: int) -> str:
        """Make a move, and return a description of the move, or "" if the move is impossible
        now.
        """
        if move is _Move.ARRIVE:
            self._arrived += 1
            self._queue.put_nowait(_payload(self._arrived - 1))
            return f"payload {self._arrived - 1} is available"
        if move is _Move.END:
            self._has_ended = True
            self._queue.put_nowait(None)
            return "there are no more payloads"
        if move is _Move.FENCE:
            if self._is_fenced or not self._cluster.waiting:
                return ""
            self._is_fenced = True
            self._cluster.fence(_BOOKIE)
            return "the bookie is fenced: it responds to all adds with BKLedgerFencedException"
        waiting = self._cluster.waiting
        if not waiting:
            return ""
        request = waiting[number % len(waiting)]
        self._cluster.acknowledge(request)
        return f"entry {request[1]} is acknowledged"

    async def _settle(self) -> None:
        await self._cluster.settle()
        while self._cluster.is_accessed:
            self._cluster.continue_access()
            await self._cluster.settle()

    @property
    def _confirmed(self) -> int:
        """The number of acknowledged entries before the first entry that has not been
        acknowledged.
        """
        acknowledged = {entry_id for _, entry_id in self._cluster.acknowledged}
        return next(number for number in count() if number not in acknowledged)

    def _check(self, appending: "asyncio.Task[None]") -> None:
        self._sent += [entry for _, entry in self._cluster.take_sent()]
        if self._reported != list(range(self._confirmed)):
            raise Refused(contract.REPORTS, f"reported: {self._reported}")
        error = appending.exception() if appending.done() else None
        if error is not None and not isinstance(error, LabkitError | ExceptionGroup):
            raise error
        is_closed = self._cluster.metadata.state is LedgerState.CLOSED
        how = "`append_all` still runs"
        if appending.done():
            how = f"`append_all` {f'raised {type(error).__name__}' if error else 'returned'}"
        how += f"; the ledger is {'CLOSED' if is_closed else 'not closed'}"
        if self._is_fenced:
            if not isinstance(error, BKLedgerFencedException) or is_closed:
                raise Refused(contract.FAILS_AT_ONCE, how)
            return
        if error is not None or not is_closed is appending.done() is self._is_closed:
            raise Refused(contract.CLOSES, how)
        expected = min(self._arrived, self._confirmed + self._case.window)
        payloads = [each.payload for each in self._sent]
        if payloads != [_payload(number) for number in range(expected)]:
            raise Refused(
                contract.WINDOW,
                f"{self._arrived} payloads have arrived, {self._confirmed} are confirmed; these are"
                f" sent: {payloads}",
            )
        if is_closed is not (self._has_ended and self._confirmed == self._arrived):
            raise Refused(contract.CLOSES, how)


def _payload(number: int) -> bytes:
    return b"payload %d" % number
