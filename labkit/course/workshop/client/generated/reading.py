"""Tests `Reader.read_entry` with generated responses from bookies."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.scripted_cluster import (
    ERRORS,
    ScriptedCluster,
    shown_segments,
    write_set_of,
)
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException, BKNoSuchLedgerExistsException
from labkit.system.model.ledger import LedgerMetadata, Segment

_COUNT = 500
_LAST = 30
_PATIENCE_S = 60.0

Response = type[BKException] | None
"""An error, or None for the entry."""


@dataclass(frozen=True, slots=True)
class _Reads:
    """The reads of one reader.

    known_segments: how many segments the metadata had when the reader was created
    reads: the ids of the entries to read, each with the responses of the bookies in its write set
    """

    metadata: LedgerMetadata
    known_segments: int
    reads: tuple[tuple[int, tuple[Response, ...]], ...]


def _recipe(draw: Draw) -> _Reads:
    size = draw.number(1, 5)
    write_quorum = draw.number(1, size)
    segments = [Segment(0, tuple(f"b{index}" for index in range(size)))]
    while len(segments) < 3 and draw.number(0, 1):
        names = tuple(f"{each}'" for each in segments[-1].ensemble)
        segments.append(Segment(segments[-1].first_entry_id + draw.number(1, 6), names))
    metadata = LedgerMetadata(size, write_quorum, draw.number(1, write_quorum), tuple(segments))
    starts = [each.first_entry_id for each in segments]
    reads: list[tuple[int, tuple[Response, ...]]] = []
    while len(reads) < 3 and (not reads or draw.number(0, 2)):
        # The entries around the start of a segment are the most interesting ones.
        entry_id = max(0, draw.one_of(starts) + draw.number(0, 7) - 2)
        reads.append((entry_id, tuple(_response(draw) for _ in range(write_quorum))))
    return _Reads(metadata, draw.number(1, len(segments)), tuple(reads))


def _response(draw: Draw) -> Response:
    if draw.chance(40):
        return None
    return draw.one_of(PROVES_ABSENCE) if draw.number(0, 1) else draw.one_of(ERRORS)


class _Bookies(ScriptedCluster):
    """Bookies that respond immediately. `asked` lists the bookies that were asked for an entry."""

    def __init__(self, metadata: LedgerMetadata) -> None:
        super().__init__(metadata)
        self.responses: dict[str, Response] = {}
        self.asked: list[str] = []

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        return _expected_entry(_LAST)

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        self.asked.append(bookie)
        error = self.responses.get(bookie, BKNoSuchLedgerExistsException)
        if error is not None:
            raise error(f"{bookie}, entry {entry_id}")
        return _expected_entry(entry_id)


def _expected_entry(entry_id: int) -> Entry:
    return Entry(ScriptedCluster.ledger_id, entry_id, entry_id - 1, 80, b"the entry")


def responses_determine_the_result(learner: Learner) -> str:
    """Check that a read returns the entry if any bookie of the write set returns it, and that the
    read otherwise raises the error that describes what is known about the entry.
    """
    try_generated(learner, _recipe, _COUNT, _test_reads, _shown)
    return f"Right for {_COUNT} generated reads."


def _test_reads(learner: Learner, case: _Reads) -> None:
    cluster = _Bookies(case.metadata)
    known = case.metadata.segments[: case.known_segments]

    async def run() -> None:
        with learner.recording_errors():
            reader = learner.part("Reader")(cluster, replace(case.metadata, segments=known))
            await reader.read_last_add_confirmed()
            for entry_id, responses in case.reads:
                names = write_set_of(case.metadata, entry_id)
                cluster.responses = dict(zip(names, responses, strict=True))
                cluster.asked = []
                _check(await _result(reader, entry_id), cluster, entry_id)

    cluster.run(run())


async def _result(reader: Any, entry_id: int) -> object:
    """Return the entry or the error that the read raises (`TimeoutError` if the read never
    returns).
    """
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await reader.read_entry(entry_id)
    except (BKException, TimeoutError) as error:
        return error


def _check(result: object, cluster: _Bookies, entry_id: int) -> None:
    asked, responses = cluster.asked, cluster.responses
    returned = (
        f"raises {type(result).__name__}"
        if isinstance(result, Exception)
        else f"returns {result!r}"
    )
    if isinstance(result, TimeoutError):
        returned = "waits for ever"
    how = f"the read of entry {entry_id} asks {', '.join(asked) or 'no bookie'} and {returned}"
    missing = [bookie for bookie in responses if bookie not in asked]
    if any(bookie not in responses for bookie in asked):
        raise Refused(contract.IN_WRITE_SET, f"{how}; the write set is {', '.join(responses)}")
    if len({*asked}) < len(asked) or any(responses[each] is None for each in asked[:-1]):
        raise Refused(contract.ONE_BY_ONE, how)
    errors = [error for error in responses.values() if error is not None]
    if missing and isinstance(result, PROVES_ABSENCE):
        raise Refused(contract.PROOF, f"{how}, but has not asked {', '.join(missing)}")
    if len(errors) < len(responses) or missing:
        how += f"; expected it to ask {missing[0]}, too" if missing else "; expected the entry"
        if result != _expected_entry(entry_id):
            raise Refused(contract.ANY_COPY, how)
        return
    doubts = tuple(error for error in errors if not issubclass(error, PROVES_ABSENCE))
    if doubts and type(result) not in doubts:
        expected = " or ".join(dict.fromkeys(error.__name__ for error in doubts))
        raise Refused(contract.PROOF, f"{how}; expected {expected}")
    if not doubts and not isinstance(result, PROVES_ABSENCE):
        raise Refused(contract.ALL_DENY, how)


def _shown(case: _Reads) -> str:
    metadata = case.metadata
    reads = "\n".join(
        f"entry {entry_id}: "
        + ", ".join(
            f"{bookie}: {error.__name__ if error else 'the entry'}"
            for bookie, error in zip(write_set_of(metadata, entry_id), responses, strict=True)
        )
        for entry_id, responses in case.reads
    )
    known = f"the first {case.known_segments} of them" if case.known_segments > 1 else "the first"
    is_new = case.known_segments == len(metadata.segments)
    created = "" if is_new else f"the reader was created when only {known} existed\n"
    return (
        f"E={metadata.ensemble_size}, Qw={metadata.write_quorum}; segments:"
        f" {shown_segments(metadata)}\n{created}the reader calls `read_last_add_confirmed`\n"
        f"{reads}"
    )
