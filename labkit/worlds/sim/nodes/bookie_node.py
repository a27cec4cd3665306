"""A node that runs a real bookie on simulated disks, which outlive its processes."""

import asyncio
from dataclasses import replace
from functools import partial

from labkit.system.bookie.disk_monitor import DiskConfig
from labkit.system.metadata.cluster import init_cluster
from labkit.system.metadata.cookie import Cookie
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.node.bookie import BookieConfig, BookieService
from labkit.system.node.ports import BookiePorts, ServerPorts
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine import disk_operation as fate
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import Keep, Operation
from labkit.worlds.sim.machine.disk_work import DiskFaults, DiskWorker
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from labkit.worlds.sim.machine.network import NodeNetwork
from labkit.worlds.sim.machine.process import Process
from labkit.worlds.sim.nodes.environment import Environment
from labkit.worlds.sim.nodes.nodes import SimNode
from labkit.worlds.sim.settings.bookie_script import Machine

BOOKIE_PORT = 3181
_INSTANCE = "00000000-0000-4000-8000-000000000000"


class BookieNode(SimNode):
    def __init__(self, world: Environment, name: str) -> None:
        super().__init__(world, name)
        self.disk_faults = DiskFaults()
        self._controller = DiskController(
            watch=self.disk_faults.watch, watch_read=self.disk_faults.watch_read
        )
        self._journal_directories = _directory_names("journal", world.cluster.journal_directories)
        self._ledger_directories = _directory_names("ledgers", world.cluster.ledger_directories)
        self.machine = Machine(
            self._empty_disks(self._journal_directories),
            self._empty_disks(self._ledger_directories),
        )
        self._workers: tuple[DiskWorker, ...] = ()
        self._drawn_count = 0
        self._step_s = 0.0
        """How long the bookie pauses between the steps of its startup."""
        self._loss = world.decisions.of(f"lose disk {name}")

    def crash_disks(self, disk: str) -> None:
        for worker in self._workers:
            worker.crash()
        self._workers = ()
        self._controller.stop_at = -1
        if disk == "kept":
            # Only the process has died, so the next process also finds the unsynced data.
            self.machine = self.machine.after_kill(self._controller)
        else:
            self.machine = self.machine.after_crash(self._fates[disk], self._controller)

    def replace_disks(self, which: str) -> None:
        """Cut the power, and replace the `journal` disks, the `ledgers` disks or `all` disks with
        empty disks.
        """
        self.crash("lost")
        self._clear(which)
        self.world.report("disk.bad", self.name, fault=f"replaced: {which}")

    def format(self) -> None:
        self.crash()
        self._clear("all")
        self.world.report("bookie.formatted", self.name)

    def _clear(self, which: str) -> None:
        if which != "ledgers":
            journals = self._empty_disks(self._journal_directories)
            self.machine = replace(self.machine, journals=journals)
        if which != "journal":
            ledgers = self._empty_disks(self._ledger_directories)
            self.machine = replace(self.machine, ledgers=ledgers)

    def _empty_disks(self, names: list[str]) -> tuple[SimDisk, ...]:
        return tuple(SimDisk(self._controller, name) for name in names)

    def crash_at_operation(self, nth: int, disk: str, down_ms: float) -> None:
        def stop() -> None:
            # If the bookie has just crashed, this operation is part of the last call of its dead
            # process (see `DiskWorker.crash`).
            if self.is_up:
                self.crash(disk)
                self.world.end_after(down_ms, self.start)

        number = len(self._controller.operations) + nth - 1
        self.disk_faults.stops.setdefault(number, stop)

    def set_disk_faults(self, what: str, for_ms: float, **fields: float) -> None:
        for name, value in fields.items():
            setattr(self.disk_faults, name, value)
        self.world.report("disk.bad", self.name, fault=what)

        def end() -> None:
            for name in fields:
                setattr(self.disk_faults, name, type(getattr(self.disk_faults, name))(0))
            self.world.report("disk.good", self.name, fault=what)

        self.world.end_after(for_ms, end)

    def start_slowly(self, extra_ms: float, for_ms: float) -> None:
        self._step_s = extra_ms / 1000
        self.world.end_after(for_ms, self._start_quickly)

    def _start_quickly(self) -> None:
        self._step_s = 0.0

    def corrupt(self, file: str, part: float, size: int) -> None:
        """Corrupt a block of `size` bytes in the largest file of the given kind, if there is such a
        file.
        """
        suffix = {"journal": ".txn", "entry log": ".log", "index": ".idx"}[file]
        sizes = {
            (disk, path): disk.stored_bytes(path)
            for disk in self.machine.disks
            for path in disk.paths()
            if path.endswith(suffix)
        }
        if sizes:
            disk, path = max(sizes, key=lambda file: sizes[file])
            offset = disk.corrupt(path, part, size)
            reported = size if size > 1 else -1
            self.world.report("disk.rotted", self.name, file=path, offset=offset, size=reported)

    def repair(self) -> None:
        super().repair()
        self.disk_faults.end()
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
        self.report_started(process)
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
        run_in_flush_thread = self.new_worker()
        ports = BookiePorts(
            metadata=metadata,
            instance_id=instance_id,
            run_in_journal_threads=[self.new_worker() for _ in store.journals],
            run_in_flush_thread=run_in_flush_thread,
            disk_usages=self.usages,
            disk_space=lambda: (0, 0),
            warn=lambda message: None,
        )
        config = BookieConfig(
            cluster.flush_interval_ms,
            cluster.garbage,
            DiskConfig(disk_check_interval_ms=cluster.flush_interval_ms),
            cluster.autorecovery,
        )
        server = ServerPorts(
            node=self.name,
            recorder=self.recorder,
            begin_session=partial(self.begin_session, network),
            new_client=lambda session, config: self.new_client(session, network, config),
            draw=self.draw,
            wall_clock_ms=self.wall_clock_ms,
        )
        return variant.service(store, config, server, ports, variant.bookie, variant.rules)

    async def _open_store(self, metadata: SimMetadataStore, instance_id: str) -> LedgerStore:
        directories = tuple(disk.name for disk in self.machine.ledgers)
        journals = ",".join(self._journal_directories)
        cookie = Cookie(self.name, journals, directories, instance_id)
        await self.world.variant.check_cookie(metadata, cookie, self.machine.disks)
        worker = self.new_worker()
        return await worker(
            partial(
                self.world.variant.store,
                self.machine.journals,
                self.machine.ledgers,
                self.world.cluster.storage,
                self.recorder,
                self.wall_clock_ms() + 1,
            )
        )

    def new_worker(self) -> DiskWorker:
        world = self.world
        worker = DiskWorker(
            world.loop, self.name, self._controller, self.disk_faults, world.decisions
        )
        self._workers = (*self._workers, worker)
        return worker

    def draw(self, count: int) -> int:
        """Draw a random number below `count`. Autorecovery makes its random choices with it."""
        self._drawn_count += 1
        decision = self.world.decisions.of(f"draw {self.name}")
        drawn = int(
            decision.value_of(self._drawn_count, 1.0, lambda draw: float(int(draw * count)))
        )
        return min(drawn, count - 1)

    def usages(self) -> dict[str, float]:
        return dict.fromkeys(self._ledger_directories, 1.0 if self.disk_faults.is_full else 0.1)

    @property
    def _fates(self) -> dict[str, Keep]:
        return {"lost": fate.lost, "torn": fate.torn, "lot": self._at_random}

    def _at_random(self, operation: Operation) -> float:
        return 1.0 - self._loss.value_of(operation.number, 2 / 3, _lost_share)


def _directory_names(name: str, count: int) -> list[str]:
    """Return the names of `count` directories, which are numbered if there are several."""
    return [f"{name} {index}" for index in range(count)] if count > 1 else [name]


def _lost_share(draw: float) -> float:
    """Return the share of an operation that is lost, given that at least part of it is lost.

    Half of these operations are lost completely, and the others are torn.
    """
    return 1.0 if draw < 0.5 else round(2 * draw - 1, 2)
