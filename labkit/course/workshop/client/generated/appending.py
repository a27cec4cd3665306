"""Tests `append_all` with generated arrivals of payloads, acknowledgements and failures."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.manual_cluster import ManualCluster
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKLedgerFencedException, LabkitError
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment

_COUNT = 200
_BOOKIE = "b0"
_METADATA = LedgerMetadata(1, 1, 1, (Segment(0, (_BOOKIE,)),))


_Move = Callable[["_Play", int], str]
"""A method of `_Play` that makes a move, and returns a description of it, or "" if the move is
impossible now; the number selects the add to acknowledge.
"""


@dataclass(frozen=True, slots=True)
class _Appends:
    """The window, and the moves, each with its number."""

    window: int
    moves: tuple[tuple[_Move, int], ...]


def payloads_are_appended(learner: Learner) -> str:
    """Check after each move which entries were sent and reported, and whether `append_all` has
    ended.
    """
    try_generated(learner, _recipe, _COUNT, _test_append_all)
    return f"Right for {_COUNT} generated orders of payloads and acknowledgements."


def _test_append_all(learner: Learner, case: _Appends) -> None:
    cluster = ManualCluster(_METADATA, ())

    async def play(log: list[str]) -> None:
        writer = learner.part("Writer")(cluster, _METADATA, cluster.version)
        await _Play(case, cluster, log).run(learner.part("append_all"), writer)

    cluster.run_logged(learner, play)


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
                await self._play(_Play.acknowledge, 0, appending)
        finally:
            appending.cancel()
            await asyncio.wait((appending,))

    async def _append(self, append_all: Any, writer: Any) -> None:
        await append_all(writer, self._payloads(), self._reported.append, self._case.window)
        self._is_closed = self._cluster.metadata.state is LedgerState.CLOSED

    async def _play(self, move: _Move, number: int, appending: "asyncio.Task[None]") -> None:
        happened = move(self, number)
        if happened:
            self._log.append(happened)
            await self._cluster.continue_all_accesses()
            self._check(appending)

    async def _payloads(self) -> AsyncIterator[bytes]:
        while (payload := await self._queue.get()) is not None:
            yield payload

    def arrive(self, _number: int) -> str:
        self._arrived += 1
        self._queue.put_nowait(_payload(self._arrived - 1))
        return f"payload {self._arrived - 1} is available"

    def end(self, _number: int) -> str:
        self._has_ended = True
        self._queue.put_nowait(None)
        return "there are no more payloads"

    def fence(self, _number: int) -> str:
        if self._is_fenced or not self._cluster.waiting:
            return ""
        self._is_fenced = True
        self._cluster.fence(_BOOKIE)
        return "the bookie is fenced: it responds to all adds with BKLedgerFencedException"

    def acknowledge(self, number: int) -> str:
        waiting = self._cluster.waiting
        if not waiting:
            return ""
        request = waiting[number % len(waiting)]
        self._cluster.acknowledge(request)
        return f"entry {request[1]} is acknowledged"

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


def _recipe(draw: Draw) -> _Appends:
    window = draw.number(1, 4)
    moves: list[tuple[_Move, int]] = []
    kinds: tuple[_Move, ...] = (_Play.arrive, _Play.acknowledge) * 4
    kinds += (_Play.fence,) * draw.chance(30)
    while len(moves) < 20 and draw.number(0, 12):
        moves.append((draw.one_of(kinds), draw.number(0, 3)))
    return _Appends(window, (*moves, (_Play.end, 0)))


def _payload(number: int) -> bytes:
    return b"payload %d" % number
