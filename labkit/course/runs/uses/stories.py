"""Runs the programs in the simulated world, with faults, for lesson 15 and its trials."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from labkit.course.runs.do_step import Do
from labkit.course.runs.uses.edit_log import TAKE_OVER, NameNode, StandbyError
from labkit.course.runs.uses.offset_store import Newest, OffsetStore, Record, newest
from labkit.course.runs.uses.snapshot_store import Removable, SnapshotStore, removable
from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace

_BOOKIES = 3
_LIMIT_S = 10.0


def play(steps: Sequence[Do], faults: Sequence[Fault] = ()) -> Trace:
    workload: Any = tuple(steps)
    scenario = Scenario(
        Cluster(_BOOKIES), workload, tuple(faults), ends_in_power_cut=False, limit_s=_LIMIT_S
    )
    return run(scenario)


# The write-ahead log


@dataclass(frozen=True, slots=True)
class Edit:
    directory: str
    node: str
    ledger_id: int
    entry_id: int


@dataclass(frozen=True, slots=True)
class NameNodes:
    """The result of running several name nodes: the acknowledged edits, and the directories that
    each takeover found.
    """

    trace: Trace
    answered: tuple[Edit, ...]
    found: dict[str, frozenset[str]]

    def lost(self) -> list[tuple[str, Edit]]:
        """Return each acknowledged edit that a later name node lacks, together with that node's
        name.
        """
        return [
            (node, edit)
            for node, directories in self.found.items()
            for edit in self.answered
            if edit.node < node and edit.directory not in directories
        ]


@dataclass(slots=True)
class _Log:
    edits: int
    answered: list[Edit] = field(default_factory=list)
    found: dict[str, frozenset[str]] = field(default_factory=dict)

    async def serve(self, node: ClientNode, steps: Sequence[str]) -> None:
        """Take over the log, then create directories until another name node becomes active."""
        names = NameNode(node.client)
        await names.take_over(steps)
        self.found[node.name] = frozenset(names.directories)
        with suppress(StandbyError):
            for number in range(self.edits):
                directory = f"/{node.name}/{number}"
                entry_id = await names.mkdir(directory)
                self.answered.append(Edit(directory, node.name, names.ledger_id, entry_id))
                await asyncio.sleep(0.002)


def name_nodes(
    steps: Sequence[str] = TAKE_OVER,
    dies_after: int | None = None,
    edits: int = 30,
) -> NameNodes:
    """Run three name nodes that take over one after another.

    n1 is active first. n2 takes over in the order of `steps` while n1 keeps running, or dies after
    `dies_after` steps. Then n3 takes over. If n2's takeover fails, raises the exception that made
    it fail.
    """
    log = _Log(edits)

    async def second(node: ClientNode) -> None:
        if dies_after is None:
            await log.serve(node, steps)
        else:
            await NameNode(node.client).take_over(steps[:dies_after])

    serve = partial(log.serve, steps=TAKE_OVER)
    took_over = Do(second, "n2", At(40))
    trace = play((Do(serve, "n1"), took_over, Do(serve, "n3", At(90))))
    took_over.result()
    return NameNodes(trace, tuple(log.answered), log.found)


# The offset store


@dataclass(frozen=True, slots=True)
class Offsets:
    """The result of running an offset store: the acknowledged commits, and the offsets that a
    second client found.
    """

    trace: Trace
    answered: tuple[Record, ...]
    found: dict[str, int]
    ledger_count: int

    def allowed(self, commits: Sequence[Record]) -> list[dict[str, int]]:
        """Return the valid results, which contain all acknowledged commits, with or without the
        commit in flight.
        """
        count = len(self.answered)
        return [newest(list(commits[:end])) for end in (count, count + 1)]


def offsets(
    commits: Sequence[Record],
    rule: Newest = newest,
    dies_after: int | None = None,
    records_per_ledger: int = 100,
) -> Offsets:
    """Let client `s` commit offsets and die after `dies_after` confirmed entries; then let client
    `t` open the store.

    If `t` cannot open the store, raises the exception that prevented it.
    """
    answered: list[Record] = []

    async def commit(node: ClientNode) -> None:
        store = OffsetStore(node.client, rule, records_per_ledger)
        await store.open()
        for record in commits:
            await store.commit(*record)
            answered.append(record)

    async def reopen(node: ClientNode) -> tuple[dict[str, int], int]:
        store = OffsetStore(node.client, rule)
        await store.open()
        return store.offsets, len(await node.client.list_ledgers())

    opened = Do(reopen, "t", At(500))
    death = [] if dies_after is None else [Crash("s", when=On("lac.advanced", dies_after))]
    trace = play((Do(commit, "s"), opened), death)
    found, ledger_count = opened.result()
    return Offsets(trace, tuple(answered), found, ledger_count)


# The snapshots


@dataclass(frozen=True, slots=True)
class Snapshots:
    """The result of running a snapshot store.

    stored: the ledger that each client stored, or the client's error; read: the snapshot that was
    read at the end, or None if reading failed; left: the ledgers that remain; collected: the
    ledgers that were deleted as garbage
    """

    trace: Trace
    stored: dict[str, int | LabkitError]
    read: bytes | None
    left: tuple[int, ...]
    collected: tuple[int, ...]


def snapshots(rule: Removable = removable, chunk_bytes: int = 100) -> Snapshots:
    """Let four clients store versions of one snapshot while a fifth collects garbage.

    Two of the four clients store a version at the same time.
    """
    stored: dict[str, int | LabkitError] = {}
    collected: list[int] = []

    async def put(node: ClientNode) -> None:
        try:
            data = node.name.encode() * 200
            stored[node.name] = await SnapshotStore(node.client, chunk_bytes).put("names", data)
        except LabkitError as error:
            stored[node.name] = error

    async def collect(node: ClientNode) -> None:
        for _ in range(40):
            collected.extend(await SnapshotStore(node.client).collect(rule))
            await asyncio.sleep(0.001)

    async def look(node: ClientNode) -> tuple[bytes | None, tuple[int, ...]]:
        store = SnapshotStore(node.client)
        collected.extend(await store.collect(rule))
        data = None
        with suppress(LabkitError, KeyError):
            data = await store.get("names")
        return data, tuple(await node.client.list_ledgers())

    looked = Do(look, "look", At(400))
    puts = [Do(put, name, At(at)) for name, at in (("p1", 0), ("p2", 50), ("p3", 51), ("p4", 110))]
    trace = play((*puts, Do(collect, "c", At(1)), looked))
    read, left = looked.result()
    return Snapshots(trace, stored, read, left, tuple(collected))
