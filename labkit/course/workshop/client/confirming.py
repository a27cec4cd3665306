"""Tests `Writer` with acknowledgements in hundreds of generated orders."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.manual_cluster import (
    ManualCluster,
    Request,
    confirmed,
    run_writer,
)
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.client.striping import write_set
from labkit.system.model.ledger import LedgerMetadata, Segment

_COUNT = 150


@dataclass(frozen=True, slots=True)
class _Acknowledgements:
    """Entries that are added at once, and the order in which their adds are acknowledged."""

    metadata: LedgerMetadata
    entries: int
    order: tuple[Request, ...]


def new_metadata(draw: Draw) -> LedgerMetadata:
    """A new ledger on up to five bookies."""
    size = draw.number(1, 5)
    write_quorum = draw.number(1, size)
    ensemble = tuple(f"b{index}" for index in range(size))
    return LedgerMetadata(size, write_quorum, draw.number(1, write_quorum), (Segment(0, ensemble),))


def requests_of(metadata: LedgerMetadata, entries: int) -> list[Request]:
    """Return the requests that a writer of the ledger sends for its first entries."""
    sizes = metadata.ensemble_size, metadata.write_quorum
    ensemble = metadata.segments[-1].ensemble
    return [
        (ensemble[index], entry_id)
        for entry_id in range(entries)
        for index in write_set(entry_id, *sizes)
    ]


def sizes_of(metadata: LedgerMetadata) -> str:
    return f"E={metadata.ensemble_size}, Qw={metadata.write_quorum}, Qa={metadata.ack_quorum}"


def listed(requests: tuple[Request, ...]) -> str:
    return ", ".join(f"{bookie} (entry {entry_id})" for bookie, entry_id in requests) or "none"


def _recipe(draw: Draw) -> _Acknowledgements:
    metadata, entries = new_metadata(draw), draw.number(1, 6)
    order = draw.shuffled(requests_of(metadata, entries))
    return _Acknowledgements(metadata, entries, tuple(order[: draw.number(0, len(order))]))


def adds_are_confirmed_in_order(learner: Learner) -> str:
    """Check after each acknowledgement which adds have returned."""
    try_generated(_recipe, _COUNT, partial(_problem, learner), _shown)
    return f"Right for {_COUNT} generated orders of acknowledgements."


def _problem(learner: Learner, case: _Acknowledgements) -> Problem | None:
    cluster = ManualCluster(case.metadata)

    async def script(writer: Any) -> Problem | None:
        adds = [asyncio.create_task(writer.add(b"")) for _ in range(case.entries)]
        await cluster.settle()
        counts = Counter[int]()
        for number, request in enumerate(case.order, start=1):
            if not cluster.waits(request):
                return contract.WRITE_SET, f"entry {request[1]} was not sent to {request[0]}"
            await cluster.acknowledge(request)
            counts[request[1]] += 1
            enough = [counts[each] >= case.metadata.ack_quorum for each in range(case.entries)]
            right = (*enough, False).index(False)
            found = confirmed(adds)
            if found == list(range(right)):
                continue
            how = f"after {number} of them, these adds have returned: {found}"
            if not all(enough[each] for each in found):
                return contract.AFTER_QA, how
            return (contract.IN_ORDER if len(found) > right else contract.NOT_HELD_UP), how
        return None

    problem: Problem | None = run_writer(learner, cluster, script)
    return problem


def _shown(case: _Acknowledgements, how: str) -> str:
    return (
        f"{sizes_of(case.metadata)}; {case.entries} entries are added at once; these bookies"
        f" acknowledge them, in this order: {listed(case.order)}\n{how}"
    )
