"""A bookie's node: disks that outlive the process, and the real parts of a bookie over them."""

import asyncio
from functools import partial

from labkit.system.bookie.disk_monitor import DiskConfig
from labkit.system.metadata.cluster import init_cluster
from labkit.system.metadata.cookie import Cookie
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.node.bookie import BookieConfig, BookieService
from labkit.system.node.ports import BookiePorts
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine import disk_operation as fate
from labkit.worlds.sim.machine.disk import Fuse, SimDisk
from labkit.worlds.sim.machine.disk_operation import Keep, Operation
from labkit.worlds.sim.machine.disk_work import DiskCall, DiskTrouble, DiskWorker
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from labkit.worlds.sim.machine.network import NodeNetwork
from labkit.worlds.sim.machine.process import Process
from labkit.worlds.sim.nodes.environment import Environment
from labkit.worlds.sim.nodes.nodes import SimNode
from labkit.worlds.sim.settings.bookie_script import Machine

BOOKIE_PORT = 3181
_INSTANCE = "00000000-0000-4000-8000-000000000000"


class BookieNode(SimNode):
    """A node with a bookie, and with the disks that outlive it."""

    def __init__(self, world: Environment, name: str) -> None:
        super().__init__(world, name)
        self._fuse = Fuse()
        self._journal_directories = _numbered("journal", world.cluster.journal_directories)
        self._ledger_directories = _numbered("ledgers", world.cluster.ledger_directories)
        self._machine = Machine(
            tuple(SimDisk(self._fuse, name) for name in self._journal_directories),
            tuple(SimDisk(self._fuse, name) for name in self._ledger_directories),
        )
        self._trouble = DiskTrouble(self.crash)
        self._watch(self._fuse)
        self._workers: tuple[DiskWorker, ...] = ()
        self._drawn_count = 0
        self._step_s = 0.0
        """How long a start pauses between its steps."""
        self._lots = world.decisions.of(f"lose disk {name}")

    @property
    def machine(self) -> Machine:
        """The disks as they are now."""
        return self._machine

    @property
    def disk_calls(self) -> list[DiskCall]:
        """The calls of its disk workers that are over, of all its lives."""
        return self._trouble.calls

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
        count = len(self._journal_directories)
        self._machine = Machine(tuple(left[:count]), tuple(left[count:]))
        self._workers = ()
        self._fuse = fuse
        self._watch(fuse)

    def _watch(self, fuse: Fuse) -> None:
        fuse.watch, fuse.watch_read = self._trouble.watch, self._trouble.watch_read

    def replace_disks(self, which: str) -> None:
        """Lose the power, and all files of the `journal`, of the `ledgers` or of `all` disks."""
        self.crash("lost")
        journals, ledgers = self._machine.journals, self._machine.ledgers
        if which != "ledgers":
            journals = self._emptied(journals)
        if which != "journal":
            ledgers = self._emptied(ledgers)
        self._machine = Machine(journals, ledgers)
        self.world.report("disk.bad", self.name, note=f"replaced: {which}")

    def format(self) -> None:
        self.crash()
        machine = self._machine
        self._machine = Machine(self._emptied(machine.journals), self._emptied(machine.ledgers))
        self.world.report("bookie.formatted", self.name)

    def _emptied(self, disks: tuple[SimDisk, ...]) -> tuple[SimDisk, ...]:
        return tuple(SimDisk(self._fuse, disk.name) for disk in disks)

    def crash_at_operation(self, nth: int, disk: str, down_ms: float) -> None:
        """Stop before the nth disk operation from now on."""

        def stop() -> None:
            self.crash(disk)
            if down_ms:
                self.world.after(down_ms, self.start)

        self._trouble.stop = stop
        self._trouble.stop_at = len(self._fuse.operations) + nth - 1

    def trouble(self, what: str, for_ms: float, **fields: float) -> None:
        """Make the disks fail in this way."""
        self.world.report("disk.bad", self.name, note=what)
        for name, value in fields.items():
            setattr(self._trouble, name, value)

        def end() -> None:
            for name in fields:
                setattr(self._trouble, name, type(getattr(self._trouble, name))(0))
            self.world.report("disk.good", self.name, note=f"no longer {what}")

        self.world.end_after(for_ms, end)

    def start_slowly(self, extra_ms: float, for_ms: float) -> None:
        """Make each step of a start `extra_ms` longer from now on."""
        self._step_s = extra_ms / 1000
        self.world.end_after(for_ms, self._start_quickly)

    def _start_quickly(self) -> None:
        self._step_s = 0.0

    def set_slow_share(self, share: float) -> None:
        """Let that part (0 to 1) of its disks' calls be slow from now on."""
        self._trouble.slow_share = share

    def take_no_time(self) -> None:
        """Let its disks' calls take no time from now on."""
        self._trouble.call_s = 0.0

    def rot(self, file: str, part: float, size: int) -> None:
        """Damage a block of `size` bytes in the largest file of that kind."""
        suffix = {"journal": ".txn", "entry log": ".log", "index": ".idx"}[file]
        for disk in self._machine.disks:
            if paths := [path for path in disk.paths() if path.endswith(suffix)]:
                path = max(paths, key=disk.stored_bytes)
                offset = disk.rot(path, part, size)
                told = size if size > 1 else -1
                self.world.report("disk.rotted", self.name, file=path, offset=offset, size=told)

    def repair(self) -> None:
        super().repair()
        self._trouble.end()
        self._start_quickly()

    async def serve(self, process: Process) -> None:
        network = NodeNetwork(self.world.network, process)
        metadata = await self.begin_session(network)
        await self._step()
        instance_id = await init_cluster(metadata, _INSTANCE)
        store = await self._open_store(metadata, instance_id)
        await self._step()
        service = self._service(metadata, instance_id, store, network)
        network.listen(service.accept, BOOKIE_PORT)
        await service.start([Endpoint(BOOKIE_RPC, self.name, BOOKIE_PORT)])
        await self._step()
        self.serves = True
        self.recorder.record("node.started")
        await service.run()

    async def _step(self) -> None:
        if self._step_s:
            await asyncio.sleep(self._step_s)

    def _service(
        self,
        metadata: SimMetadataStore,
        instance_id: str,
        store: LedgerStore,
        network: NodeNetwork,
    ) -> BookieService:
        variant, cluster = self.world.variant, self.world.cluster
        write_entries = self.new_worker()
        ports = BookiePorts(
            metadata=metadata,
            instance_id=instance_id,
            write_journals=[self.new_worker() for _ in store.journals],
            write_entries=write_entries,
            disk_usages=self.usages,
            disk_space=lambda: (0, 0),
            warn=lambda line: None,
        )
        config = BookieConfig(
            cluster.flush_interval_ms,
            cluster.garbage,
            DiskConfig(disk_check_interval_ms=cluster.flush_interval_ms),
            cluster.autorecovery,
        )
        server = self.server_ports(network, self.draw)
        return variant.service(store, config, server, ports, variant.bookie, variant.rules)

    async def _open_store(self, metadata: SimMetadataStore, instance_id: str) -> LedgerStore:
        """Open the disks, after the time that this takes."""
        directories = tuple(disk.name for disk in self._machine.ledgers)
        journals = ",".join(self._journal_directories)
        cookie = Cookie(self.name, journals, directories, instance_id)
        await self.world.variant.check_cookie(metadata, cookie, self._machine.disks)
        worker = self.new_worker()
        return await worker(
            partial(
                self.world.variant.store,
                self._machine.journals,
                self._machine.ledgers,
                self.world.cluster.storage,
                self.recorder,
                self.wall_clock_ms() + 1,
            )
        )

    def new_worker(self) -> DiskWorker:
        """A separate thread for one kind of disk work."""
        world = self.world
        worker = DiskWorker(world.loop, self.name, self._fuse, self._trouble, world.decisions)
        self._workers = (*self._workers, worker)
        return worker

    def draw(self, count: int) -> int:
        """A random number below `count`: autorecovery's port to chance."""
        self._drawn_count += 1
        lots = self.world.decisions.of(f"draw {self.name}")
        drawn = int(lots.take(self._drawn_count, 1.0, lambda lot: float(int(lot * count))))
        return min(drawn, count - 1)

    def usages(self) -> dict[str, float]:
        """How full each ledger directory is."""
        return dict.fromkeys(self._ledger_directories, 1.0 if self._trouble.is_full else 0.1)

    @property
    def _fates(self) -> dict[str, Keep]:
        return {"lost": fate.lost, "torn": fate.torn, "lot": self._by_lot}

    def _by_lot(self, operation: Operation) -> float:
        return 1.0 - self._lots.take(operation.number, 2 / 3, _lost_part)


def _numbered(name: str, count: int) -> list[str]:
    """Names of that many directories; a single one needs no number."""
    return [f"{name} {place}" for place in range(count)] if count > 1 else [name]


def _lost_part(lot: float) -> float:
    """The fate of operations: half of those that do not survive are lost, the others torn."""
    return 1.0 if lot < 0.5 else round(2 * lot - 1, 2)
