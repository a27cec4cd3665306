"""Tests `create_ledger` and `take_over` with generated ledgers."""

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.generated.manual_cluster import ManualCluster
from labkit.course.workshop.client.generated.recovering import (
    LedgerToRecover,
    LostLedger,
    lost_ledger,
    shown,
)
from labkit.course.workshop.client.generated.scripted_cluster import draw_sizes, write_set_of
from labkit.course.workshop.generated_cases import try_generated
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException, BKNotEnoughBookiesException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.worlds.sim.machine.loop import DeadlockError

_COUNT = 200
_PATIENCE_S = 600.0
_VERSION = 3
_NOT_CREATED = LedgerMetadata(1, 1, 1, ())


@dataclass(frozen=True, slots=True)
class _NewLedger:
    """The sizes of a new ledger (E, Qw and Qa), its id, and the writable bookies."""

    sizes: tuple[int, int, int]
    ledger_id: int
    writable: tuple[str, ...]


def _new_ledger(draw: Draw) -> _NewLedger:
    sizes = draw_sizes(draw)
    count = max(0, sizes[0] + draw.number(0, 4) - 2)
    return _NewLedger(sizes, draw.number(0, 9), tuple(f"b{index}" for index in range(count)))


class _Ledgers:
    """Creates one ledger, and opens this ledger on the given cluster."""

    def __init__(self, case: _NewLedger, cluster: ManualCluster) -> None:
        self.stored: LedgerMetadata | None = None
        self._case, self._cluster = case, cluster

    async def writable_bookies(self) -> list[str]:
        return list(self._case.writable)

    async def new_ledger_id(self) -> int:
        return self._case.ledger_id

    async def create_metadata(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        await asyncio.sleep(0.001)
        self.stored = self._cluster.metadata = metadata
        self._cluster.ledger_id, self._cluster.version = ledger_id, _VERSION
        return _VERSION

    def cluster(self, ledger_id: int, metadata: LedgerMetadata) -> ManualCluster:
        return self._cluster


def ledgers_are_created(learner: Learner) -> str:
    """Check the metadata of new ledgers, and check that the writers use this metadata."""
    try_generated(learner, _new_ledger, _COUNT, _test_create_ledger, _shown)
    return f"Right for {_COUNT} generated new ledgers."


def _test_create_ledger(learner: Learner, case: _NewLedger) -> None:
    cluster = ManualCluster(_NOT_CREATED, ())
    ledgers = _Ledgers(case, cluster)

    async def run() -> None:
        with learner.recording_errors():
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    writer = await learner.part("create_ledger")(ledgers, *case.sizes)
            except (BKException, TimeoutError) as error:
                is_right = (
                    len(case.writable) < case.sizes[0]
                    and isinstance(error, BKNotEnoughBookiesException)
                    and ledgers.stored is None
                )
                if is_right:
                    return
                raise Refused(contract.CREATES, f"raised {type(error).__name__}") from None
            if len(case.writable) < case.sizes[0]:
                raise Refused(contract.CREATES, f"stored {ledgers.stored}")
            if not isinstance(writer, learner.part("Writer")):
                raise Refused(contract.STORES, f"returned {type(writer).__name__}")
            _check_metadata(ledgers.stored, case)
            await _check_writer(writer, cluster)

    cluster.run(run())


def _check_metadata(stored: LedgerMetadata | None, case: _NewLedger) -> None:
    if stored is None:
        raise Refused(contract.STORES, "stored no metadata")
    ensemble = stored.segments[0].ensemble if stored.segments else ()
    if not (
        (stored.ensemble_size, stored.write_quorum, stored.ack_quorum) == case.sizes
        and len({*ensemble}) == case.sizes[0]
        and {*ensemble} <= {*case.writable}
        and stored.segments == (Segment(0, ensemble),)
        and stored.state is LedgerState.OPEN
    ):
        raise Refused(contract.STORES, f"stored {stored}")


async def _check_writer(writer: Any, cluster: ManualCluster) -> None:
    """Check that the writer uses the stored ensemble and the version of the stored metadata."""
    metadata = cluster.metadata
    adding = asyncio.create_task(writer.add(b"entry"))
    await cluster.settle()
    asked = sorted(bookie for bookie, _ in cluster.take_sent())
    if asked != sorted(write_set_of(metadata, 0)):
        how = f"stored {metadata}; the writer sends entry 0 to {asked}"
        raise Refused(contract.STORES, how)
    for request in cluster.waiting:
        cluster.acknowledge(request)
    await adding
    closing = asyncio.create_task(writer.close())
    await cluster.continue_all_accesses()
    if cluster.conflicts or not closing.done() or closing.exception() is not None:
        how = "has a conflict, because it does not know the version of the stored metadata"
        raise Refused(contract.STORES, f"the writer {how}")


def _shown(case: _NewLedger) -> str:
    size, write_quorum, ack_quorum = case.sizes
    return (
        f"create_ledger with E={size}, Qw={write_quorum}, Qa={ack_quorum}; writable:"
        f" {', '.join(case.writable) or 'none'}"
    )


class _LostLedgers:
    """Opens a ledger whose writer has died."""

    def __init__(self, cluster: LedgerToRecover) -> None:
        self._cluster = cluster

    async def read_metadata(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        return await self._cluster.read_metadata()

    def cluster(self, ledger_id: int, metadata: LedgerMetadata) -> LedgerToRecover:
        return self._cluster


def ledgers_are_taken_over(learner: Learner) -> str:
    """Check the entries that `take_over` returns. All bookies respond."""
    recipe = partial(lost_ledger, may_fail=False)
    try_generated(learner, recipe, _COUNT, _test_take_over, shown)
    return f"Right for {_COUNT} generated ledgers that are taken over."


def _test_take_over(learner: Learner, case: LostLedger) -> None:
    cluster = LedgerToRecover(case)

    async def run() -> object:
        with learner.recording_errors(may_raise=(BKException,)):
            async with asyncio.timeout(_PATIENCE_S):
                take_over = learner.part("take_over")
                return await take_over(_LostLedgers(cluster), cluster.ledger_id)

    try:
        entries = cluster.run(run())
    except (BKException, TimeoutError, DeadlockError) as error:
        how = "\n".join((*cluster.log, f"raised {type(error).__name__}"))
        raise Refused(contract.TAKES_OVER, how) from None
    stored = cluster.metadata
    found = [
        (each.entry_id, each.payload) if isinstance(each, Entry) else each
        for each in (entries if isinstance(entries, list) else [entries])
    ]
    expected = [(each.entry_id, each.payload) for each in case.packed[: stored.last_entry_id + 1]]
    if stored.state is not LedgerState.CLOSED or found != expected:
        how = f"the ledger is {stored.state.name}; expected {expected}, got {found}"
        raise Refused(contract.TAKES_OVER, "\n".join((*cluster.log, how)))
