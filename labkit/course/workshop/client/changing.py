"""Tests `Writer` with generated failures of bookies."""

import asyncio
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

_COUNT = 300


@dataclass(frozen=True, slots=True)
class _Failure:
    """Entries that are added at once, the adds that are acknowledged, and the bookies that then
    fail all other adds.
    """

    metadata: LedgerMetadata
    entries: int
    acknowledged: tuple[Request, ...]
    failed: tuple[str, ...]
    writable: tuple[str, ...]

    @property
    def last_add_confirmed(self) -> int:
        return self.confirmed_by(set(self.acknowledged)) - 1

    def confirmed_by(self, acknowledged: set[Request], already: int = 0) -> int:
        """Return how many entries are confirmed by then: those that were confirmed already, and
        those that these acknowledgements confirm.
        """
        for entry_id in range(already, self.entries):
            if sum(each == entry_id for _, each in acknowledged) < self.metadata.ack_quorum:
                return entry_id
        return self.entries

    @property
    def pending(self) -> range:
        return range(self.last_add_confirmed + 1, self.entries)

    @property
    def failing(self) -> list[Request]:
        """The adds that fail: those of each failed bookie for which an unconfirmed entry waits."""
        waiting = set(requests_of(self.metadata, self.entries)) - set(self.acknowledged)
        names = {bookie for bookie, entry_id in waiting if entry_id in self.pending}
        return sorted(each for each in waiting if each[0] in names & {*self.failed})

    @property
    def spare(self) -> list[str]:
        ensemble = self.metadata.segments[0].ensemble
        return [each for each in self.writable if each not in ensemble]

    @property
    def must_continue(self) -> bool:
        """Whether Qa bookies can acknowledge each entry even if no failed bookie is replaced."""
        names = {bookie for bookie, _ in self.failing}
        left = [each for each in requests_of(self.metadata, self.entries) if each[0] not in names]
        quorum = self.metadata.ack_quorum
        return all(sum(entry == each for _, entry in left) >= quorum for each in self.pending)


def _recipe(draw: Draw) -> _Failure:
    metadata, entries = new_metadata(draw), draw.number(1, 6)
    ensemble = metadata.segments[0].ensemble
    order = draw.shuffled(requests_of(metadata, entries))
    spare = [f"s{number}" for number in range(draw.number(0, 5))]
    registered = [each for each in ensemble if draw.number(0, 3)]
    return _Failure(
        metadata,
        entries,
        tuple(order[: draw.number(0, len(order))]),
        tuple(draw.some(ensemble)) or ensemble[:1],
        tuple(draw.shuffled([*registered, *spare])),
    )


def changes_are_right(learner: Learner) -> str:
    """Check the new segment, the entries that are sent again, and which adds return then."""
    try_generated(_recipe, _COUNT, partial(_problem, learner), _shown)
    return f"Right for {_COUNT} generated failures of bookies."


def _problem(learner: Learner, case: _Failure) -> Problem | None:
    failing = {bookie for bookie, _ in case.failing}
    if not failing or not (case.must_continue or len(case.spare) >= len(failing)):
        return None
    cluster = ManualCluster(case.metadata, case.writable)

    async def script(writer: Any) -> Problem | None:
        adds = [asyncio.create_task(writer.add(b"")) for _ in range(case.entries)]
        await cluster.settle()
        await cluster.acknowledge(*case.acknowledged)
        before = len(cluster.sent)
        await cluster.fail(*case.failing)
        problem = _segment_problem(case, cluster.changes)
        problem = problem or _resend_problem(case, cluster.metadata, cluster.sent[before:])
        return problem or await _confirmation_problem(case, cluster, adds)

    problem: Problem | None = run_writer(learner, cluster, script)
    return problem


def _segment_problem(case: _Failure, changes: list[LedgerMetadata]) -> Problem | None:
    old = case.metadata.segments[0].ensemble
    failing = {bookie for bookie, _ in case.failing}
    count = min(len(failing), len(case.spare))
    if not changes:
        return (contract.CONTINUES, "no new ensemble was stored") if count else None
    [*_, last] = changes[-1].segments
    how = f"the new segment starts at entry {last.first_entry_id}, on {', '.join(last.ensemble)}"
    if last.first_entry_id != case.last_add_confirmed + 1:
        return contract.BEGINS, how
    if len(last.ensemble) != len(old):
        return contract.KEEPS, how
    changed = [(a, b) for a, b in zip(old, last.ensemble, strict=True) if a != b]
    if any(before not in failing for before, _ in changed):
        return contract.KEEPS, how
    added = [after for _, after in changed]
    if len({*added}) < len(added) or not {*added} <= {*case.spare}:
        return contract.OUTSIDE, how
    return (contract.CONTINUES, how) if len(changed) < count else None


def _resend_problem(
    case: _Failure, metadata: LedgerMetadata, sent: list[Request]
) -> Problem | None:
    old = {*case.metadata.segments[0].ensemble}
    right = {
        (bookie, entry_id)
        for bookie, entry_id in requests_of(metadata, case.entries)
        if bookie not in old and entry_id in case.pending
    }
    if missing := sorted(right - {*sent}):
        return contract.RESENT, f"not sent: {listed(tuple(missing))}"
    if more := sorted({*sent} - right):
        return contract.RESENT, f"sent again: {listed(tuple(more))}"
    return None


async def _confirmation_problem(
    case: _Failure, cluster: ManualCluster, adds: "list[asyncio.Task[int]]"
) -> Problem | None:
    """First acknowledge the adds of the bookies that remain, then all other adds."""
    ensemble, old = cluster.metadata.segments[-1].ensemble, case.metadata.segments[0].ensemble
    counted = {each for each in case.acknowledged if each[0] in ensemble}
    for bookies in (old, ensemble):
        waiting = [each for each in cluster.waiting() if each[0] in bookies]
        await cluster.acknowledge(*waiting)
        counted |= {each for each in waiting if each[0] in ensemble}
        right = case.confirmed_by(counted, case.last_add_confirmed + 1)
        found = confirmed(adds)
        how = f"then {', '.join(bookies)} acknowledge; these adds have returned: {found}"
        if len(found) > right:
            return contract.COUNTS, how
        if len(found) < right:
            return contract.CONTINUES, how
    return None


def _shown(case: _Failure, how: str) -> str:
    return (
        f"{sizes_of(case.metadata)}; {case.entries} entries are added at once; acknowledged:"
        f" {listed(case.acknowledged)}; LastAddConfirmed is {case.last_add_confirmed}; then these"
        f" adds fail: {listed(tuple(case.failing))}; writable: {', '.join(case.writable) or 'none'}"
        f"\n{how}"
    )
