"""Plays generated scripts with the learner's `Writer`.

A script is a sequence of moves: calls of the writer, responses from bookies, accesses to the
metadata, and actions of another client. After each move, `WriterRules` checks the writer.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import partial
from typing import Any

from labkit.course.checking.generated_cases import Draw, Recipe
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.manual_cluster import ManualCluster, Request
from labkit.course.workshop.client.writer_rules import WriterRules
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment

_PAYLOADS = (b"", b"four", b" two\n", b"\xff\x00", b"seven..")
_MAX_ACCESSES = 50
_PATIENCE_S = 0.1
"""How long a writer may sleep before it replaces a failed bookie."""


class Move(Enum):
    ADD = auto()
    ACKNOWLEDGE = auto()
    FAIL = auto()
    """A single add fails."""
    CRASH = auto()
    """All adds to a bookie fail, including later ones."""
    ACCESS = auto()
    """A waiting access to the metadata takes place."""
    CLOSE = auto()
    FENCE = auto()
    """Another client marks the ledger IN_RECOVERY and fences a bookie."""
    RECOVER = auto()
    """Another client marks the ledger IN_RECOVERY."""
    REWRITE = auto()
    """Another client replaces a bookie of the first segment while the ledger is being closed."""
    END = auto()
    """Another client closes the ledger while the writer is closing it."""


@dataclass(frozen=True, slots=True)
class Script:
    """A new ledger, the writable bookies, and the moves, each of which has a number that selects a
    payload, a request or an entry.

    replaces, announces: as in `WriterRules`
    """

    metadata: LedgerMetadata
    writable: tuple[str, ...]
    moves: tuple[tuple[Move, int], ...]
    replaces: bool
    announces: bool


def new_metadata(draw: Draw) -> LedgerMetadata:
    """Return the metadata of a new ledger on up to five bookies."""
    size = draw.number(1, 5)
    write_quorum = draw.number(1, size)
    ensemble = tuple(f"b{index}" for index in range(size))
    return LedgerMetadata(size, write_quorum, draw.number(1, write_quorum), (Segment(0, ensemble),))


def moves_of(draw: Draw, first: Move, others: Sequence[Move], most: int) -> list[tuple[Move, int]]:
    """Return at most `most` moves. A kind that is listed twice is twice as likely."""
    moves = [(first, draw.number(0, 19))]
    while len(moves) < most and draw.number(0, most // 2):
        moves.append((draw.one_of(others), draw.number(0, 19)))
    return moves


def play_scripts(learner: Learner, recipe: Recipe[Script], count: int) -> str:
    """Play generated scripts. Raises `Refused` with the smallest script that breaks a line of the
    contract.
    """
    try_generated(learner, recipe, count, partial(_problem, learner), lambda _script, how: how)
    return f"Right for {count} generated orders of adds, responses and accesses to the metadata."


def _problem(learner: Learner, script: Script) -> Problem | None:
    cluster = ManualCluster(script.metadata, script.writable)

    async def play(log: list[str]) -> None:
        writer = learner.part("Writer")(cluster, script.metadata, cluster.version)
        await _Play(script, cluster, writer, log).run()

    return cluster.problem_in(learner, play)


class _Play:
    """One play of a script."""

    def __init__(self, script: Script, cluster: ManualCluster, writer: Any, log: list[str]) -> None:
        metadata = script.metadata
        log.append(
            f"E={metadata.ensemble_size}, Qw={metadata.write_quorum}, Qa={metadata.ack_quorum} on"
            f" {', '.join(metadata.segments[0].ensemble)}"
            + f"; writable: {', '.join(script.writable) or 'none'}"
            * script.replaces
        )
        self._script, self._cluster, self._writer, self._log = script, cluster, writer, log
        self._rules = WriterRules(cluster, replaces=script.replaces, announces=script.announces)
        self._moves: dict[Move, Callable[[int], str]] = {
            Move.ADD: self._add,
            Move.ACKNOWLEDGE: self._acknowledge,
            Move.FAIL: self._fail,
            Move.CRASH: self._crash,
            Move.ACCESS: self._access,
            Move.CLOSE: self._close,
            Move.FENCE: self._fence,
            Move.RECOVER: self._recover,
            Move.REWRITE: self._rewrite,
            Move.END: self._end,
        }

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
            await self._make(Move.ACKNOWLEDGE, 0)
            await self._let_all_access()
        if self._rules.end is not None:
            await self._make(Move.ADD, 0)
        self._rules.check_result()

    async def _let_all_access(self) -> None:
        for _ in range(_MAX_ACCESSES):
            if not self._cluster.is_accessed:
                return
            await self._make(Move.ACCESS, 0)
        line = contract.CONFLICT if self._rules.is_closing else contract.CONTINUES
        raise Refused(line, "the metadata are accessed again and again")

    async def _make(self, move: Move, number: int) -> None:
        happened = self._moves[move](number)
        if happened:
            self._log.append(happened)
            await self._cluster.settle()
            if self._rules.may_sleep:
                await self._cluster.settle(_PATIENCE_S)
            self._rules.check()

    # Each of the following methods makes a move and returns a description of it, or "" if the move
    # is impossible now.

    def _add(self, number: int) -> str:
        calls = []
        for each in range(1 + number % 3):
            payload = _PAYLOADS[(number + each) % len(_PAYLOADS)]
            result = asyncio.create_task(self._writer.add(payload))
            calls.append(f"add({payload!r}) for entry {self._rules.added(payload, result)}")
        return "; ".join(calls)

    def _acknowledge(self, number: int) -> str:
        request = self._waiting_request(number)
        if not request:
            return ""
        self._cluster.acknowledge(request)
        return f"{request[0]} acknowledges entry {request[1]}"

    def _fail(self, number: int) -> str:
        request = self._waiting_request(number)
        if not request or not (self._script.replaces or self._rules.can_do_without(request[0])):
            return ""
        self._rules.add_failed(request)
        self._cluster.fail(request)
        return f"{request[0]} responds to entry {request[1]} with BKTimeoutException"

    def _crash(self, number: int) -> str:
        request = self._waiting_request(number)
        if not request or not (self._script.replaces or self._rules.can_do_without(request[0])):
            return ""
        for each in self._cluster.waiting:
            if each[0] == request[0]:
                self._rules.add_failed(each)
        self._cluster.fail_all(request[0])
        return f"{request[0]} crashes: it responds to all adds with BKTimeoutException"

    def _access(self, _number: int) -> str:
        return self._cluster.continue_access() if self._cluster.is_accessed else ""

    def _close(self, _number: int) -> str:
        if self._rules.end is not None:
            return ""
        self._rules.close_called(asyncio.create_task(self._writer.close()))
        return "close()"

    def _fence(self, number: int) -> str:
        request = self._waiting_request(number)
        if not request or self._rules.end is not None:
            return ""
        self._recover(0)
        self._rules.bookie_fenced()
        self._cluster.fence(request[0])
        return f"{request[0]} is fenced: it responds to all adds with BKLedgerFencedException"

    def _recover(self, _number: int) -> str:
        if self._cluster.metadata.state is not LedgerState.OPEN:
            return ""
        return self._change(replace(self._cluster.metadata, state=LedgerState.IN_RECOVERY))

    def _rewrite(self, number: int) -> str:
        if not self._may_interfere():
            return ""
        first, *others = self._cluster.metadata.segments
        ensemble = f"r{number}", *first.ensemble[1:]
        return self._change(
            replace(self._cluster.metadata, segments=(replace(first, ensemble=ensemble), *others))
        )

    def _end(self, number: int) -> str:
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
        is_closed = metadata.state is LedgerState.CLOSED
        state = f"{metadata.state.name}{f' at entry {metadata.last_entry_id}' * is_closed}"
        return f"another client writes the metadata: {state}"

    def _waiting_request(self, number: int) -> Request | None:
        waiting = self._cluster.waiting
        return waiting[number % len(waiting)] if waiting else None
