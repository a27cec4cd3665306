"""The commands of autorecovery's scripts.

    ledger 3 5 3 2       write three entries with E=5 Qw=3 Qa=2 (default: 3 3 2), close the ledger
    open 3 5 3 2         the same, but leave the ledger open
    write 0 2, close 0, delete 0
    lose b2 0 5          let b2 lose entry 5 of ledger 0
    hide b2 0 5          the same, but `unhide b2` restores the entry
    damage b2 0 5        change the last byte of b2's copy of entry 5
    mark 0 b2, lock 0, unlock 0, fence 0
    put /path text       replace the contents of a znode
    start a b2           start an autorecovery instance and a bookie
    embed b2 a           start an autorecovery instance in the process of a bookie
    restart a            start an instance right after a silence of the metadata store
    stop b2, readonly b2
    flap b2 10           stop and start a bookie ten times, a second each
    add b6, remove b5    add a bookie, or remove one for good
    fail b2 is_silent    set a flag of `MemoryBookie`; `cure` clears the flag
    crash a, cut a, heal, expire a
    hang 6, unlist       let the metadata store hang, or lose the list of bookies
    config key=value     configure the instances that start later
    racks left=12 right=345
    delay 60, disable, enable
    check 0, count 0, drop b1 0 1
    wait 1, repaired     wait for a second, or until no copy is missing
    show read.sent       show events of these kinds only
    state, checks, auditor

The output of a line of commands consists of the recorded events, followed by the text that the
commands printed.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import cast

from labkit.system.autorecovery.checker import LedgerChecker
from labkit.system.autorecovery.election import current_auditor
from labkit.system.autorecovery.fragments import underreplicated_indexes
from labkit.system.autorecovery.ledger_view import view_ledger
from labkit.system.autorecovery.metadata_silence import MetadataSilence, SettledBookies
from labkit.system.autorecovery.overreplicated import OverreplicatedLedgers
from labkit.system.autorecovery.replicas_check import check_replicas
from labkit.system.autorecovery.underreplication import NEVER_MS
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.racks import RACKS
from labkit.system.metadata.store import ANY_VERSION, NodeExistsError
from labkit.system.metadata.watched_nodes import WatchedNodes
from labkit.system.model.ledger import LedgerState
from tests.scripts import Commands, ranges
from tests.system.autorecovery.world import PATHS, World, payload


class AutoRecoveryCommands(Commands):
    def __init__(self, world: World) -> None:
        super().__init__(world.rows)
        self._world = world
        self._writers: dict[int, LedgerWriter] = {}
        self._hidden: dict[str, tuple[tuple[int, int], bytes]] = {}

    async def play(self, line: str) -> list[str]:
        return [*await super().play(line), *self._ends()]

    def _ends(self) -> Iterator[str]:
        """Report which instances have ended, and forget them."""
        instances = self._world.instances
        for name in [name for name, instance in instances.items() if instance.done()]:
            instance = instances.pop(name)
            if not instance.cancelled():
                yield f"{name} ended: {instance.exception()!r}"

    # Ledgers

    async def ledger(self, entry_count: int, *sizes: int) -> None:
        await self._world.closed_ledger(entry_count, _sizes(*sizes))

    async def open(self, entry_count: int, *sizes: int) -> None:
        writer = await self._world.client.create_ledger(*_sizes(*sizes))
        self._writers[writer.ledger_id] = writer
        await self.write(writer.ledger_id, entry_count)

    async def write(self, ledger_id: int, count: int) -> None:
        writer = self._writers[ledger_id]
        first = writer.last_add_confirmed + 1
        for entry_id in range(first, first + count):
            await writer.add(payload(entry_id))
        await asyncio.sleep(0.1)  # wait for the last acknowledgements

    async def close(self, ledger_id: int) -> None:
        await self._writers[ledger_id].close()

    async def delete(self, ledger_id: int) -> None:
        await self._world.client.delete_ledger(ledger_id)

    async def lose(self, bookie: str, ledger_id: int, *entry_ids: int) -> None:
        self._world.bookies[bookie].lose(ledger_id, *entry_ids)

    async def hide(self, bookie: str, ledger_id: int, entry_id: int) -> None:
        key = ledger_id, entry_id
        self._hidden[bookie] = key, self._world.bookies[bookie].entries.pop(key)

    async def unhide(self, bookie: str) -> None:
        key, entry = self._hidden.pop(bookie)
        self._world.bookies[bookie].entries[key] = entry

    async def damage(self, bookie: str, ledger_id: int, entry_id: int) -> None:
        entries = self._world.bookies[bookie].entries
        key = ledger_id, entry_id
        entries[key] = entries[key][:-1] + b"?"

    async def mark(self, ledger_id: int, *bookies: str) -> None:
        await self._world.manager.mark(ledger_id, bookies)

    async def lock(self, ledger_id: int) -> None:
        await self._world.store.create(PATHS.lock(ledger_id), b"", ephemeral=True)

    async def unlock(self, ledger_id: int) -> None:
        await self._world.store.delete(PATHS.lock(ledger_id))

    async def put(self, path: str, *words: str | int) -> None:
        await self._world.store.set(path, " ".join(map(str, words)).encode(), ANY_VERSION)

    # Nodes

    async def start(self, *nodes: str) -> None:
        for node in nodes:
            if node in self._world.bookies:
                await self._world.start_bookie(node)
            else:
                await self._world.start_autorecovery(node)

    async def add(self, *bookies: str) -> None:
        for bookie in bookies:
            await self._world.add_bookie(bookie)

    async def remove(self, *bookies: str) -> None:
        for bookie in bookies:
            await self._world.stop_bookie(bookie)
            await self._world.store.delete(f"/ledgers/cookies/{bookie}")

    async def stop(self, *bookies: str) -> None:
        for bookie in bookies:
            await self._world.stop_bookie(bookie)

    async def readonly(self, bookie: str) -> None:
        await self._world.start_bookie(bookie, read_only=True)

    async def embed(self, bookie: str, node: str) -> None:
        await self._world.start_autorecovery(node, own_bookie=bookie)

    async def restart(self, node: str) -> None:
        await self._world.start_autorecovery(node, follows_silence=True)

    async def flap(self, bookie: str, count: int) -> None:
        for _ in range(count):
            await self._world.stop_bookie(bookie)
            await asyncio.sleep(1)
            await self._world.start_bookie(bookie)
            await asyncio.sleep(1)

    async def fence(self, ledger_id: int) -> None:
        for bookie in self._world.bookies.values():
            bookie.fenced[ledger_id] = None

    async def unlist(self) -> None:
        tree = self._world.metadata.zookeeper.tree
        for bookie in ("readonly", *self._world.bookies):
            tree.delete(f"/ledgers/available/{bookie}", ANY_VERSION)
        tree.delete("/ledgers/available", ANY_VERSION)

    async def auditor(self) -> None:
        self.print_line(f"auditor: {await current_auditor(self._world.store) or 'none'}")

    async def fail(self, bookie: str, flag: str) -> None:
        setattr(self._world.bookies[bookie], flag, True)

    async def cure(self, bookie: str, flag: str) -> None:
        setattr(self._world.bookies[bookie], flag, False)

    async def crash(self, node: str) -> None:
        self._world.metadata.crash(node)

    async def cut(self, node: str) -> None:
        self._world.metadata.cut(node)

    async def heal(self) -> None:
        self._world.metadata.heal()

    async def expire(self, *nodes: str) -> None:
        for node in nodes:
            self._world.metadata.zookeeper.expire(node)

    async def hang(self, seconds: int) -> None:
        self._world.metadata.hang()
        await asyncio.sleep(seconds)
        self._world.metadata.thaw()

    # Settings

    async def config(self, *settings: str) -> None:
        pairs = (setting.split("=") for setting in settings)
        values = {key: json.loads(value) for key, value in pairs}
        self._world.config = replace(self._world.config, **values)

    async def racks(self, *racks: str) -> None:
        pairs = (rack.split("=") for rack in racks)
        bookies = {f"b{number}": {"rack": rack} for rack, some in pairs for number in some}
        data = json.dumps({"default": bookies}).encode()
        try:
            await self._world.store.create(RACKS, data)
        except NodeExistsError:
            await self._world.store.set(RACKS, data, ANY_VERSION)

    async def delay(self, seconds: int) -> None:
        await self._world.manager.set_lost_bookie_recovery_delay(seconds)

    async def disable(self) -> None:
        await self._world.manager.disable()

    async def enable(self) -> None:
        await self._world.manager.enable()

    # Time

    async def wait(self, seconds: int) -> None:
        await asyncio.sleep(seconds)

    async def repaired(self) -> None:
        await self._world.until_replicated()

    # Components of autorecovery

    async def check(self, ledger_id: int, percentage: int = 0) -> None:
        """Print those fragments with missing copies that the ledger checker finds."""
        store, context = self._world.store, self._world.client.context
        bookies = SettledBookies(WatchedNodes(store), MetadataSilence(store))
        checker = LedgerChecker(context, bookies, percentage, lambda n: 0, underreplicated_indexes)
        found = await checker.check(await view_ledger(self._world.client, ledger_id))
        if not found:
            self.print_line(f"no copies of ledger {ledger_id} missing")
        for short in found:
            fragment = short.fragment
            state = "closed" if fragment.closed else "open"
            missing = ",".join(short.bookies)
            self.print_line(
                f"copies of {fragment.first}-{fragment.last} ({state}) missing on {missing}"
            )

    async def count(self, ledger_id: int) -> None:
        """Run the replicas check, and print which bookies it asks for a list of entries."""
        bookies = self._world.bookies.values()
        before = {bookie.name: bookie.list_count for bookie in bookies}
        await check_replicas(self._world.client, ledger_id)
        asked = [b.name for b in bookies for _ in range(b.list_count - before[b.name])]
        self.print_line(f"asked for lists: {','.join(asked) or 'none'}")

    async def drop(self, bookie: str, *ledger_ids: int) -> None:
        """Print which of these ledgers the bookie drops because it has unneeded copies of them."""
        store, clock = self._world.store, self._world.wall_clock_ms
        begin_session = partial(self._world.metadata.session, "gc")
        ledgers = OverreplicatedLedgers(bookie, store, begin_session, lambda n: 0, clock)
        await ledgers.drop(
            ledger_ids, lambda dropped: self.print_line(f"{bookie} drops ledger {dropped}")
        )

    # State

    async def state(self) -> None:
        """Print each ledger with its mark, its lock, its fences and its missing copies."""
        world = self._world
        for ledger_id in await world.client.list_ledgers():
            metadata = await world.ledger(ledger_id)
            segments = (f"{s.first_entry_id}:{','.join(s.ensemble)}" for s in metadata.segments)
            end = f" at {metadata.last_entry_id}" if metadata.state is LedgerState.CLOSED else ""
            facts = [f"ledger {ledger_id} {metadata.state.name}{end}: {' '.join(segments)}"]
            if ledger_id in await world.manager.ledgers():
                facts.append("marked")
            if await world.store.exists(PATHS.lock(ledger_id)):
                facts.append("locked")
            if fenced := [b.name for b in world.bookies.values() if ledger_id in b.fenced]:
                facts.append(f"fenced on {','.join(fenced)}")
            missing = await world.missing(ledger_id)
            for bookie, some in groupby(sorted((b, n) for n, b in missing), lambda each: each[0]):
                facts.append(f"{bookie} has lost {ranges([n for _, n in some])}")
            self.print_line("; ".join(facts))

    async def checks(self) -> None:
        """Print when the periodic checks last ended."""
        start_ms = self._world.wall_clock_ms() - 1000 * self._world.metadata.loop.now
        made = []
        for name in ("ledgers", "replicas", "placement"):
            path = getattr(PATHS, f"{name}_checked")
            last_ms = await self._world.manager.last_check_ms(path)
            if last_ms != NEVER_MS:
                made.append(f"{name} at {(last_ms - start_ms) / 1000:.1f} s")
        self.print_line(f"checked: {', '.join(made) or 'nothing'}")


def _sizes(*sizes: int) -> tuple[int, int, int]:
    return cast(tuple[int, int, int], sizes) if sizes else (3, 3, 2)
