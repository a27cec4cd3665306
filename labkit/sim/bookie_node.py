"""A bookie's node: disks that outlive the process, and the real parts of a bookie over them."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from labkit.autorecovery.config import AutoRecoveryConfig
from labkit.autorecovery.daemon import AutoRecovery
from labkit.autorecovery.overreplicated import OverreplicatedLedgers
from labkit.bookie.disk_monitor import DiskConfig, DiskMonitor
from labkit.bookie.garbage_collection import GarbageCollection, GarbageConfig
from labkit.metadata.cluster import init_cluster
from labkit.metadata.cookie import Cookie, check_cookie
from labkit.metadata.ledger_manager import LedgerManager
from labkit.metadata.registration import BOOKIE_RPC, Endpoint, register_bookie
from labkit.metadata.store import MetadataError, MetadataUnavailableError
from labkit.sim import disk as fate
from labkit.sim.disk import Fuse, Keep, Operation, SimDisk
from labkit.sim.disk_work import DiskTrouble, DiskWorker
from labkit.sim.metadata import SimMetadataStore
from labkit.sim.network import NodeNetwork
from labkit.sim.nodes import Node
from labkit.sim.process import Process
from labkit.sim.script import Machine
from labkit.storage.store import LedgerStore

if TYPE_CHECKING:
    from labkit.sim.world import World

BOOKIE_PORT = 3181
_INSTANCE = "00000000-0000-4000-8000-000000000000"
_RETRY_S = 0.1
_BETWEEN_SESSIONS_S = 1.0


class BookieNode(Node):
    """A node with a bookie, and with the disks that outlive it."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._fuse = Fuse()
        self._machine = Machine(
            (SimDisk(self._fuse, "journal"),), (SimDisk(self._fuse, "ledgers"),)
        )
        self._trouble = DiskTrouble(self.crash)
        self._fuse.watch = self._trouble.watch
        self._workers: tuple[DiskWorker, ...] = ()
        self._drawn_count = 0
        self._lots = world.decisions.of(f"lose disk {name}")

    @property
    def machine(self) -> Machine:
        """The disks as they are now."""
        return self._machine

    def crash(self, disk: str = "kept", why: str = "") -> None:
        """End the process; the disks keep what they keep."""
        if not self.is_up:
            return
        super().crash(disk, why)
        for worker in self._workers:
            worker.crash()
        fuse = Fuse(operations=list(self._fuse.operations))
        if disk == "kept":
            # Only the process is gone: the next one finds also what is not synced yet.
            left = [each.after_kill(fuse) for each in self._machine.disks]
        else:
            left = [each.after_crash(self._fates[disk], fuse) for each in self._machine.disks]
        self._machine = Machine((left[0],), (left[1],))
        self._workers = ()
        self._fuse = fuse
        fuse.watch = self._trouble.watch

    def crash_at_operation(self, nth: int, disk: str, down_ms: float) -> None:
        """Stop before the nth disk operation from now on."""

        def stop() -> None:
            self.crash(disk)
            if down_ms:
                self.world.after(down_ms, self.start)

        self._trouble.stop = stop
        self._trouble.stop_at = len(self._fuse.operations) + nth - 1

    def trouble(self, what: str, for_ms: float, **fields: float) -> None:
        """The disks go bad in this way."""
        self.world.report("disk.bad", self.name, note=what)
        for name, value in fields.items():
            setattr(self._trouble, name, value)

        def end() -> None:
            for name in fields:
                setattr(self._trouble, name, type(getattr(self._trouble, name))(0))
            self.world.report("disk.good", self.name, note=f"no longer {what}")

        self.world.end_after(for_ms, end)

    def set_slow_share(self, share: float) -> None:
        """From now on that part (0 to 1) of its disks' calls may be slow."""
        self._trouble.slow_share = share

    def take_no_time(self) -> None:
        """From now on its disks' calls are over as soon as they begin."""
        self._trouble.call_s = 0.0

    def rot(self, file: str, part: float, size: int) -> None:
        """Damage a block of so many bytes in the file of that kind that holds most."""
        suffix = {"journal": ".txn", "entry log": ".log", "index": ".idx"}[file]
        for disk in self._machine.disks:
            if paths := [path for path in disk.paths() if path.endswith(suffix)]:
                path = max(paths, key=disk.stored_bytes)
                offset = disk.rot(path, part, size)
                told = size if size > 1 else -1
                self.world.report("disk.rotted", self.name, file=path, offset=offset, size=told)

    def mend(self) -> None:
        """Whatever is wrong with this node's machine ends."""
        super().mend()
        self._trouble.end()

    async def _serve(self, process: Process) -> None:
        network = NodeNetwork(self.world.network, process)
        metadata = await self.begin_session(network)
        store = await self._open_store(metadata)
        await BookieService(self, metadata, store, network).run(network)

    async def _open_store(self, metadata: SimMetadataStore) -> LedgerStore:
        """Open the disks; the time that this takes passes before."""
        instance_id = await init_cluster(metadata, _INSTANCE)
        cookie = Cookie(self.name, "journal", ("ledgers",), instance_id)
        await check_cookie(metadata, cookie, self._machine.disks)
        worker = self.new_worker()
        return await worker(
            partial(
                self.world.variant.store,
                self._machine.journals,
                self._machine.ledgers,
                self.world.scenario.cluster.storage,
                self.recorder,
                self.wall_clock_ms() + 1,
            )
        )

    def new_worker(self) -> DiskWorker:
        """A thread of its own for one kind of disk work."""
        world = self.world
        worker = DiskWorker(world.loop, self.name, self._fuse, self._trouble, world.decisions)
        self._workers = (*self._workers, worker)
        return worker

    def draw(self, count: int) -> int:
        """A number below `count`: the port of autorecovery to chance."""
        self._drawn_count += 1
        lots = self.world.decisions.of(f"draw {self.name}")
        drawn = int(lots.take(self._drawn_count, 1.0, lambda lot: float(int(lot * count))))
        return min(drawn, count - 1)

    def usages(self) -> list[float]:
        """How full each ledger directory is."""
        return [1.0 if self._trouble.is_full else 0.1]

    @property
    def _fates(self) -> dict[str, Keep]:
        return {"lost": fate.lost, "torn": fate.torn, "lot": self._by_lot}

    def _by_lot(self, operation: Operation) -> float:
        return 1.0 - self._lots.take(operation.number, 2 / 3, _lost_part)


def _lost_part(lot: float) -> float:
    """Half of those that do not survive are lost, the others torn."""
    return 1.0 if lot < 0.5 else round(2 * lot - 1, 2)


class BookieService:
    """A bookie's parts, put together as `labkit.live.bookie_process` does it."""

    def __init__(
        self,
        node: BookieNode,
        metadata: SimMetadataStore,
        store: LedgerStore,
        network: NodeNetwork,
    ) -> None:
        cluster = node.world.scenario.cluster
        self._node = node
        self._metadata = metadata
        self._must_register = asyncio.Event()
        flushes = node.new_worker()
        self._garbage = GarbageCollection(
            store,
            LedgerManager(metadata).ids,
            OverreplicatedLedgers(
                node.name,
                metadata,
                partial(node.begin_session, network),
                node.draw,
                node.wall_clock_ms,
            ).drop,
            flushes,
            GarbageConfig(
                gc_wait_time_ms=cluster.gc_wait_time_ms,
                gc_overreplicated_ledger_wait_time_ms=cluster.gc_overreplicated_ledger_wait_time_ms,
            ),
            node.recorder,
        )
        self._monitor = DiskMonitor(
            store,
            node.usages,
            DiskConfig(disk_check_interval_ms=cluster.flush_interval_ms),
            node.recorder,
            self._set_read_only,
            self._garbage.on_space,
        )
        self._bookie = node.world.variant.bookie(
            store,
            node.recorder,
            [node.new_worker() for _ in store.journals],
            flushes,
            cluster.flush_interval_ms,
            self._monitor.on_checkpoint,
        )

    async def run(self, network: NodeNetwork) -> None:
        """Serve.  Raises what the first part raises that cannot go on."""
        network.listen(self._bookie.accept, BOOKIE_PORT)
        self._metadata.on_new_session(self._must_register.set)
        self._monitor.check()
        await self._register()
        self._node.serves = True
        self._node.recorder.record("node.started")
        parts = [
            asyncio.create_task(part)
            for part in (
                self._bookie.run(),
                self._garbage.run(),
                self._monitor.run(),
                self._stay_registered(),
                self._keep_recovering(network),
            )
        ]
        await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        for part in parts:
            if part.done():
                part.result()

    async def _register(self) -> None:
        endpoint = Endpoint(BOOKIE_RPC, self._node.name, BOOKIE_PORT)
        await register_bookie(
            self._metadata, self._node.name, [endpoint], read_only=self._bookie.read_only
        )
        self._node.recorder.record("bookie.registered")

    async def _stay_registered(self) -> None:
        """A lost session takes the registration with it: make it again in the new one."""
        while True:
            await self._must_register.wait()
            self._must_register.clear()
            try:
                await self._register()
            except MetadataError:
                self._must_register.set()
                await asyncio.sleep(_RETRY_S)

    async def _keep_recovering(self, network: NodeNetwork) -> None:
        """Autorecovery, anew with a session of its own whenever the last was lost."""
        config = self._node.world.scenario.cluster.autorecovery
        if config is None:
            await asyncio.get_running_loop().create_future()
            return
        while True:
            try:
                await self._recover_in_one_session(network, config)
            except MetadataUnavailableError as error:
                self._node.recorder.record("autorecovery.restarted", note=str(error))
            await asyncio.sleep(_BETWEEN_SESSIONS_S)

    async def _recover_in_one_session(
        self, network: NodeNetwork, config: AutoRecoveryConfig
    ) -> None:
        node, rules = self._node, self._node.world.variant.rules
        metadata = await node.begin_session(network)
        client = node.new_client(metadata, network, config.client)
        try:
            await AutoRecovery(node.name, client, config, node.draw, rules).run()
        finally:
            client.close()
            await metadata.stop()

    def _set_read_only(self, read_only: bool) -> None:
        self._bookie.read_only = read_only
        self._must_register.set()
