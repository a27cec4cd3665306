"""Tests `Reader.read_last_add_confirmed` with generated responses from bookies."""

import asyncio
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.scripted_cluster import (
    ERRORS,
    ScriptedCluster,
    draw_sizes,
    shown_new_ledger,
)
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.client.quorum import is_covered
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException, BKReadException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment

_COUNT = 400
Response = tuple[int, int] | type[BKException]
"""A bookie's newest entry and the LastAddConfirmed that it carries, or an error."""


class _Change(Enum):
    """How the metadata has changed since the last call."""

    NOTHING = auto()
    ENSEMBLE = auto()
    RECOVERY = auto()
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of `read_last_add_confirmed`.

    responses: the responses, each with its ensemble index, in the order in which they arrive
    beyond: if the ledger is closed, how many entries it has after LastAddConfirmed
    """

    change: _Change
    beyond: int
    responses: tuple[tuple[int, Response], ...]


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls of one reader, which was created with this metadata."""

    metadata: LedgerMetadata
    calls: tuple[_Call, ...]


def _recipe(draw: Draw) -> _Calls:
    size, write_quorum, ack_quorum = draw_sizes(draw)
    first = Segment(0, tuple(f"a{index}" for index in range(size)))
    calls = [_call(draw, size)]
    while len(calls) < 4 and draw.number(0, 3):
        calls.append(_call(draw, size))
    return _Calls(LedgerMetadata(size, write_quorum, ack_quorum, (first,)), tuple(calls))


def _call(draw: Draw, size: int) -> _Call:
    change = draw.one_of((*(_Change.NOTHING,) * 4, *_Change))
    order, errors = draw.shuffled(range(size)), ERRORS if draw.chance(25) else PROVES_ABSENCE
    responses = tuple((index, _response(draw, errors)) for index in order)
    return _Call(change, draw.number(0, 2), responses)


def _response(draw: Draw, errors: tuple[type[BKException], ...]) -> Response:
    if draw.number(0, 2) == 2:
        return draw.one_of(errors)
    last_add_confirmed = draw.id(NO_ENTRY_ID)
    return last_add_confirmed + draw.number(1, 3), last_add_confirmed


class _Bookies(ScriptedCluster):
    """Bookies that respond only when the test tells them to.

    asked, was_read: the bookies that were asked in this call, and whether the metadata was read
    """

    def __init__(self, metadata: LedgerMetadata) -> None:
        super().__init__(metadata)
        self.asked: set[str] = set()
        self.was_read = False
        self._responses: dict[str, asyncio.Future[Response]] = {}

    def begin(self, metadata: LedgerMetadata) -> None:
        """Discard the requests and responses of the previous call."""
        self.metadata, self.version = metadata, self.version + 1
        self.asked, self.was_read, self._responses = set(), False, {}

    def respond(self, bookie: str, response: Response) -> None:
        self._response_of(bookie).set_result(response)

    def _response_of(self, bookie: str) -> "asyncio.Future[Response]":
        return self._responses.setdefault(bookie, asyncio.get_running_loop().create_future())

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        self.was_read = True
        return await super().read_metadata()

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        self.asked.add(bookie)
        response = await asyncio.shield(self._response_of(bookie))
        if not isinstance(response, tuple):
            raise response(bookie)
        entry_id, last_add_confirmed = response
        return Entry(self.ledger_id, entry_id, last_add_confirmed, 80, b"")


def readers_learn_lac(learner: Learner) -> str:
    """Check after each response whether the reader has returned, and what it returned."""
    try_generated(learner, _recipe, _COUNT, _test_calls)
    return f"Right for {_COUNT} generated orders of responses."


def _test_calls(learner: Learner, case: _Calls) -> None:
    cluster = _Bookies(case.metadata)

    async def make_calls(log: list[str]) -> None:
        play = _Play(case, cluster, learner.part("Reader")(cluster, case.metadata), log)
        for call in case.calls:
            await play.make(call)

    cluster.run_logged(learner, make_calls)


class _Play:
    """Makes the calls of a test case."""

    def __init__(self, case: _Calls, cluster: _Bookies, reader: Any, log: list[str]) -> None:
        self._metadata = case.metadata
        log.append(shown_new_ledger(case.metadata))
        self._cluster, self._reader, self._log = cluster, reader, log
        self._known = self._reported = NO_ENTRY_ID
        """What the reader must know by now, and what it may know."""

    async def make(self, call: _Call) -> None:
        """Make one call. Raises `Refused`."""
        if self._metadata.state is not LedgerState.CLOSED:
            self._change(call)
        self._cluster.begin(self._metadata)
        reading = asyncio.create_task(self._reader.read_last_add_confirmed())
        self._log.append("read_last_add_confirmed()")
        await self._cluster.settle()
        if self._metadata.state is LedgerState.CLOSED:
            if _result(reading) != self._metadata.last_entry_id:
                raise Refused(contract.CURRENT, _outcome(reading))
            return
        if strangers := sorted(self._cluster.asked - {*self._metadata.segments[-1].ensemble}):
            line = contract.LAST_ENSEMBLE if self._cluster.was_read else contract.CURRENT
            raise Refused(line, f"the call asks {', '.join(strangers)}")
        await self._respond(call, reading)

    def _change(self, call: _Call) -> None:
        metadata = self._metadata
        if call.change is _Change.ENSEMBLE:
            names = tuple(f"{each}'" for each in metadata.segments[-1].ensemble)
            first = max(metadata.segments[-1].first_entry_id, self._known) + 1
            metadata = replace(metadata, segments=(*metadata.segments, Segment(first, names)))
            self._log.append(f"a new segment starts at entry {first}, on {', '.join(names)}")
        elif call.change is _Change.RECOVERY:
            metadata = replace(metadata, state=LedgerState.IN_RECOVERY)
            self._log.append("another client marks the ledger IN_RECOVERY")
        elif call.change is _Change.CLOSE:
            metadata = metadata.closed(self._reported + call.beyond, 80)
            self._log.append(f"another client closes the ledger at entry {metadata.last_entry_id}")
        self._metadata = metadata

    async def _respond(self, call: _Call, reading: "asyncio.Task[int]") -> None:
        metadata, known_before = self._metadata, self._known
        sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        ensemble = metadata.segments[-1].ensemble
        responded: set[int] = set()
        reports: list[int] = []
        for index, response in call.responses:
            if reading.done():
                if isinstance(_result(reading), BKException):
                    raise Refused(contract.LEARNS, _outcome(reading))
                silent = [b for i, b in enumerate(ensemble) if i not in responded]
                how = f"although a confirmed entry could be only on {', '.join(silent)}"
                raise Refused(contract.LEARNS_ANY, f"{_outcome(reading)}, {how}")
            bookie = ensemble[index]
            self._cluster.respond(bookie, response)
            await self._cluster.settle()
            if isinstance(response, tuple):
                entry_id, last_add_confirmed = response
                self._log.append(f"{bookie}: entry {entry_id}, which carries {last_add_confirmed}")
                reports.append(last_add_confirmed)
                self._reported = max(self._reported, last_add_confirmed)
            else:
                self._log.append(f"{bookie}: {response.__name__}")
            if isinstance(response, tuple) or issubclass(response, PROVES_ABSENCE):
                responded.add(index)
            if is_covered(responded, *sizes):
                self._known = max(known_before, *reports, NO_ENTRY_ID)
                self._check_learned(reading, known_before)
                return
        if not isinstance(_result(reading), BKReadException):
            raise Refused(contract.TOO_FEW, _outcome(reading))

    def _check_learned(self, reading: "asyncio.Task[int]", known_before: int) -> None:
        result = _result(reading)
        if not isinstance(result, int):
            raise Refused(contract.LEARNS, _outcome(reading))
        how = f"{_outcome(reading)}; expected {self._known}"
        if result > self._reported:
            raise Refused(contract.IS_CONFIRMED, how)
        if result < known_before:
            raise Refused(contract.NEVER_BACK, how)
        if result < self._known:
            raise Refused(contract.LEARNS_ANY, how)
        self._known = result


def _result(reading: "asyncio.Task[int]") -> object:
    """Return the result of a call, the `BKException` that it raised, or None if it is still
    waiting.

    Raises any other exception, because it is a bug in the learner's code.
    """
    if not reading.done():
        return None
    error = reading.exception()
    if error is None:
        return reading.result()
    if not isinstance(error, BKException):
        raise error
    return error


def _outcome(reading: "asyncio.Task[int]") -> str:
    result = _result(reading)
    if result is None:
        return "the call returns None" if reading.done() else "the call still waits"
    if isinstance(result, BKException):
        return f"the call raises {type(result).__name__}"
    return f"the call returns {result!r}"
