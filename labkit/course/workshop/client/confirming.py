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
    listed,
    new_metadata,
    requests_of,
    run_writer,
    sizes_of,
)
from labkit.course.workshop.generated_cases import Problem, try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.ledger import LedgerMetadata

_COUNT = 150


@dataclass(frozen=True, slots=True)
class _Acknowledgements:
    """Entries that are added at once, and the order in which their adds are acknowledged."""

    metadata: LedgerMetadata
    entries: int
    order: tuple[Request, ...]


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
            if not cluster.is_waiting(request):
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
