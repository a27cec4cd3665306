"""Tests the learner's `Writer` with generated scripts, of a different kind for each of the steps 1,
2, 4 and 5.

A script is a sequence of moves: calls of the writer, responses from bookies, accesses to the
metadata, and actions of another client. After each move, `WriterRules` checks the writer.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from labkit.course.checking.generated_cases import Draw, Recipe
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.manual_cluster import ManualCluster, Request
from labkit.course.workshop.client.generated.scripted_cluster import (
    draw_sizes,
    shown_new_ledger,
    shown_state,
)
from labkit.course.workshop.client.generated.writer_rules import WriterRules
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment

_COUNT = 450
_PAYLOADS = (b"", b"four", b" two\n", b"\xff\x00", b"seven..")
_MAX_ACCESSES = 50
_PATIENCE_S = 0.1
"""How long a writer may sleep before it replaces a failed bookie."""

_Move = Callable[["_Play", int], str]
"""A method of `_Play` that makes a move, and returns a description of it, or "" if the move is
impossible now; the number selects a payload, a request or an entry.
"""


@dataclass(frozen=True, slots=True)
class _Script:
    """A new ledger, the writable bookies, and the moves, each with its number.

    replaces, announces: as in `WriterRules`
    """

    metadata: LedgerMetadata
    writable: tuple[str, ...]
    moves: tuple[tuple[_Move, int], ...]
    replaces: bool
    announces: bool


def adds_are_confirmed_in_order(learner: Learner) -> str:
    """Check what a writer sends, and which of its adds have returned after each response."""
    return _try_scripts(learner, partial(_appends, announces=False))


def entries_carry_lac(learner: Learner) -> str:
    """In addition, check the LastAddConfirmed that each entry carries."""
    return _try_scripts(learner, partial(_appends, announces=True))


def failed_bookies_are_replaced(learner: Learner) -> str:
    """Check the new segments, the entries that are resent, and the adds that return afterwards."""
    return _try_scripts(learner, _changes)


def writers_end(learner: Learner) -> str:
    """Check how a writer ends after it has been closed or fenced."""
    return _try_scripts(learner, _ends)


def _try_scripts(learner: Learner, recipe: Recipe[_Script]) -> str:
    try_generated(learner, recipe, _COUNT, _test_script)
    return f"Right for {_COUNT} generated orders of adds, responses and accesses to the metadata."


def _test_script(learner: Learner, script: _Script) -> None:
    cluster = ManualCluster(script.metadata, script.writable)

    async def play(log: list[str]) -> None:
        writer = learner.part("Writer")(cluster, script.metadata, cluster.version)
        await _Play(script, cluster, writer, log).run()

    cluster.run_logged(learner, play)


class _Play:
    """Plays a script."""

    def __init__(
        self, script: _Script, cluster: ManualCluster, writer: Any, log: list[str]
    ) -> None:
        writable = f"; writable: {', '.join(script.writable) or 'none'}" * script.replaces
        log.append(f"{shown_new_ledger(script.metadata)}{writable}")
        self._script, self._cluster, self._writer, self._log = script, cluster, writer, log
        self._rules = WriterRules(cluster, replaces=script.replaces, announces=script.announces)

    async def run(self) -> None:
        """Make all moves; then let every waiting request proceed. Raises `Refused` if a rule is
        broken.
        """
        for move, number in self._script.moves:
            await self._make(move, number)
            if not self._script.replaces:
                await self._let_all_access()
        await self._let_all_access()
        while self._cluster.waiting:
            await self._make(_Play.acknowledge, 0)
            await self._let_all_access()
        if self._rules.end is not None:
            await self._make(_Play.add, 0)
        self._rules.check_result()

    async def _let_all_access(self) -> None:
        for _ in range(_MAX_ACCESSES):
            if not self._cluster.is_accessed:
                return
            await self._make(_Play.access, 0)
        line = contract.CONFLICT if self._rules.is_closing else contract.CONTINUES
        raise Refused(line, "the metadata are accessed again and again")

    async def _make(self, move: _Move, number: int) -> None:
        happened = move(self, number)
        if happened:
            self._log.append(happened)
            await self._cluster.settle()
            if self._rules.may_sleep:
                await self._cluster.settle(_PATIENCE_S)
            self._rules.check()

    # The moves

    def add(self, number: int) -> str:
        calls = []
        for each in range(1 + number % 3):
            payload = _PAYLOADS[(number + each) % len(_PAYLOADS)]
            result = asyncio.create_task(self._writer.add(payload))
            calls.append(f"add({payload!r}) for entry {self._rules.added(payload, result)}")
        return "; ".join(calls)

    def acknowledge(self, number: int) -> str:
        request = self._waiting_request(number)
        if not request:
            return ""
        self._cluster.acknowledge(request)
        return f"{request[0]} acknowledges entry {request[1]}"

    def fail(self, number: int) -> str:
        """A single add fails."""
        request = self._request_that_may_fail(number)
        if not request:
            return ""
        self._rules.add_failed(request)
        self._cluster.fail(request)
        return f"{request[0]} responds to entry {request[1]} with BKTimeoutException"

    def crash(self, number: int) -> str:
        """All adds to a bookie fail, including later ones."""
        request = self._request_that_may_fail(number)
        if not request:
            return ""
        for each in self._cluster.waiting:
            if each[0] == request[0]:
                self._rules.add_failed(each)
        self._cluster.fail_all(request[0])
        return f"{request[0]} crashes: it responds to all adds with BKTimeoutException"

    def access(self, _number: int) -> str:
        """A waiting access to the metadata takes place."""
        return self._cluster.continue_access() if self._cluster.is_accessed else ""

    def close(self, _number: int) -> str:
        if self._rules.end is not None:
            return ""
        self._rules.close_called(asyncio.create_task(self._writer.close()))
        return "close()"

    def fence(self, number: int) -> str:
        """Another client marks the ledger IN_RECOVERY and fences a bookie."""
        request = self._waiting_request(number)
        if not request or self._rules.end is not None:
            return ""
        self.recover(0)
        self._rules.bookie_fenced()
        self._cluster.fence(request[0])
        return f"{request[0]} is fenced: it responds to all adds with BKLedgerFencedException"

    def recover(self, _number: int) -> str:
        """Another client marks the ledger IN_RECOVERY."""
        if self._cluster.metadata.state is not LedgerState.OPEN:
            return ""
        return self._change(replace(self._cluster.metadata, state=LedgerState.IN_RECOVERY))

    def rewrite(self, number: int) -> str:
        """Another client replaces a bookie of the first segment while the writer is closing."""
        if not self._may_interfere():
            return ""
        first, *others = self._cluster.metadata.segments
        ensemble = f"r{number}", *first.ensemble[1:]
        return self._change(
            replace(self._cluster.metadata, segments=(replace(first, ensemble=ensemble), *others))
        )

    def end(self, number: int) -> str:
        """Another client closes the ledger while the writer is closing it."""
        if not self._may_interfere():
            return ""
        last = max(NO_ENTRY_ID, self._rules.last_add_confirmed - 1 + number % 3)
        return self._change(self._cluster.metadata.closed(last, 8 * (last + 1)))

    def _may_interfere(self) -> bool:
        is_open = self._cluster.metadata.state is not LedgerState.CLOSED
        return self._rules.is_closing and self._cluster.is_accessed and is_open

    def _change(self, metadata: LedgerMetadata) -> str:
        self._cluster.change_metadata(metadata)
        self._rules.other_client_changed()
        return f"another client writes the metadata: {shown_state(metadata)}"

    def _waiting_request(self, number: int) -> Request | None:
        waiting = self._cluster.waiting
        return waiting[number % len(waiting)] if waiting else None

    def _request_that_may_fail(self, number: int) -> Request | None:
        request = self._waiting_request(number)
        if request and not (self._script.replaces or self._rules.can_do_without(request[0])):
            return None
        return request


_APPENDING: tuple[_Move, ...] = (
    *(_Play.add, *(_Play.acknowledge,) * 4),
    *(_Play.fail, _Play.crash),
)
_CHANGING = (*_APPENDING, *(_Play.access,) * 3)
_CLOSING = (*_CHANGING, _Play.rewrite, _Play.rewrite, _Play.recover)


def _appends(draw: Draw, *, announces: bool) -> _Script:
    metadata, moves = _new_metadata(draw), _moves_of(draw, _Play.add, _APPENDING, 20)
    return _Script(metadata, (), tuple(moves), replaces=False, announces=announces)


def _changes(draw: Draw) -> _Script:
    metadata = _new_metadata(draw)
    writable = _writable(draw, metadata)
    others = (*_CHANGING * 3, _Play.recover) if draw.chance(25) else _CHANGING
    moves = _moves_of(draw, _Play.add, others, 60)
    return _Script(metadata, writable, tuple(moves), replaces=True, announces=False)


def _ends(draw: Draw) -> _Script:
    metadata = _new_metadata(draw)
    writable = _writable(draw, metadata)
    # Make this choice before choosing the moves, so that the end of a failing script can be cut
    # off.
    is_closed = draw.number(0, 2) > 0
    others = _CHANGING if is_closed else (*_CHANGING, _Play.fence, _Play.fence)
    moves = _moves_of(draw, _Play.add, others, 20)
    if is_closed:
        closing = (*_CLOSING, *(_Play.end,) * 3) if draw.chance(50) else _CLOSING
        moves += _moves_of(draw, _Play.close, closing, 20)
    return _Script(metadata, writable, tuple(moves), replaces=True, announces=False)


def _writable(draw: Draw, metadata: LedgerMetadata) -> tuple[str, ...]:
    """Return the spare bookies and the registered bookies of the ensemble, in random order."""
    spare = [f"s{number}" for number in range(2 * draw.number(0, 4))]
    registered = [each for each in metadata.segments[0].ensemble if draw.number(0, 3)]
    return tuple(draw.shuffled([*registered, *spare]))


def _new_metadata(draw: Draw) -> LedgerMetadata:
    """Return the metadata of a new ledger on up to five bookies."""
    sizes = draw_sizes(draw)
    ensemble = tuple(f"b{index}" for index in range(sizes[0]))
    return LedgerMetadata(*sizes, (Segment(0, ensemble),))


def _moves_of(
    draw: Draw, first: _Move, others: Sequence[_Move], most: int
) -> list[tuple[_Move, int]]:
    """Return at most `most` moves. A kind that is listed twice is twice as likely."""
    moves = [(first, draw.number(0, 19))]
    while len(moves) < most and draw.number(0, most // 2):
        moves.append((draw.one_of(others), draw.number(0, 19)))
    return moves
