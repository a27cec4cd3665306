"""The nodes of the simulated world: servers that can crash, pause and restart, and clients.

A node runs the real components, assembled as in `labkit.worlds.live`. Only the ports are simulated.
A crash ends the entire process of a node. A start creates a new process, which finds the data that
has survived. Events about a node are reported only after they have happened, because an event may
trigger a restart or another fault.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.metadata.store import MetadataError, MetadataStore
from labkit.system.model.errors import LabkitError
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.disk import CrashError
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from labkit.worlds.sim.machine.network import NodeNetwork
from labkit.worlds.sim.machine.process import NodeClock, Process
from labkit.worlds.sim.nodes.environment import Environment
from labkit.worlds.sim.nodes.ledger_numbers import LedgerNumbers

_EPOCH_MS = 1_700_000_000_000
"""The time shown by wall clocks at virtual time 0."""
_RESTART_MS = 1000.0


class SimNode:
    def __init__(self, world: Environment, name: str) -> None:
        self.world = world
        self.name = name
        self.clock = NodeClock()
        self.is_serving = False
        """Whether the node has finished starting."""
        self.process: Process | None = None
        self.recorder = Recorder(name, world.loop.now_us)
        self._stop_recording: Callable[[], None] = lambda: None

    @property
    def is_up(self) -> bool:
        """Whether the node has a process, which may be running or paused."""
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        if self.is_up:
            return
        # The clock belongs to the machine, so it is not corrected when a new process starts.
        process = self.process = Process(self.name, self.clock)
        self.recorder = Recorder(self.name, self.world.loop.now_us)
        self._stop_recording = self.recorder.listen(self.world.receive_events)
        self.world.loop.start(process)
        self.world.network.started(process)
        self.is_serving = False
        self.spawn(self._serve_until_end(process))

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self.process is not None
        task = self.process.spawn(coroutine)
        task.add_done_callback(self._task_ended, context=self.world.loop.world)
        return task

    def crash(self, disk: str = "kept", *, error: str = "", reason: str = "") -> None:
        """Kill the process if there is one. Unless `disk` is `kept`, the machine also loses power,
        even if no process is running.

        If the process has terminated itself, `error` and `reason` explain why.
        """
        process = self.process
        if process is None:
            return
        self.world.loop.report_lost_errors(process)
        was_up = process.is_alive
        if not was_up and disk == "kept":
            return
        if was_up:
            process.kill()
            self._stop_recording()
        self.world.network.died(process, silently=disk != "kept")
        self.crash_disks(disk)
        if was_up:
            self.world.report(
                "node.killed", self.name, detail=disk, error=error, explanation=reason
            )
            for action in process.on_death:
                action()

    def crash_disks(self, disk: str) -> None:
        """Determine what the disks contain after a crash. Only bookies have disks."""

    def pause(self) -> None:
        if self.process is not None and self.process.is_running:
            self.world.loop.pause(self.process)
            self.world.report("node.paused", self.name)

    def resume(self) -> None:
        if self.process is not None and self.process.is_alive and not self.process.is_running:
            self.world.loop.resume(self.process)
            self.world.report("node.resumed", self.name)

    def skew(self, rate: float, offset_ms: int) -> None:
        self.clock.change(self.world.loop.now, rate, offset_ms)
        self.world.report("clock.skewed", self.name, fault=f"rate {rate:g}, off by {offset_ms} ms")

    def end_skew(self) -> None:
        self.clock.change(self.world.loop.now, 1.0, 0)

    def repair(self) -> None:
        """End all faults of this node. A node that is paused or down remains in that state."""
        self.end_skew()

    def wall_clock_ms(self) -> int:
        return _EPOCH_MS + int(self.world.loop.now * 1000) + self.clock.wall_offset_ms

    async def _serve_until_end(self, process: Process) -> None:
        try:
            await self.serve(process)
        except CrashError:
            return
        except (LabkitError, OSError) as error:
            # An event may have triggered a crash, and even a restart, during the current step.
            if not process.is_alive:
                return
            self.crash(error=type(error).__name__, reason=str(error))
            if isinstance(error, MetadataError):
                self.world.after(_RESTART_MS, self.start)

    async def serve(self, process: Process) -> None:
        """Do the work of the node. Subclasses must implement this method."""
        raise NotImplementedError

    def report_started(self, process: Process) -> None:
        # As above, the current step may belong to a process that has just been killed.
        if process.is_alive:
            self.is_serving = True
            self.recorder.record("node.started")

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        """Report an uncaught exception, because it is a bug."""
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, CrashError):
            name = type(error).__name__
            self.world.report("node.failed", self.name, error=name, explanation=repr(error))

    async def begin_session(self, network: NodeNetwork) -> SimMetadataStore:
        timeout_s = self.world.cluster.session_timeout_ms / 1000
        metadata = SimMetadataStore(network, self.name, timeout_s)
        await metadata.start()
        return metadata

    def new_client(
        self,
        metadata: MetadataStore,
        network: NodeNetwork,
        config: ClientConfig | None = None,
    ) -> BookKeeper:
        tokens = self.world.tokens
        client: BookKeeper = self.world.variant.client(
            metadata,
            network,
            self.recorder,
            in_name_order,
            lambda: next(tokens),
            self.wall_clock_ms,
            # Omit `config` if it is None, because a variant may have its own default configuration.
            **({} if config is None else {"config": config}),
        )
        return client


class ClientNode(SimNode):
    client: BookKeeper
    network: NodeNetwork

    def __init__(self, world: Environment, name: str, ledgers: LedgerNumbers) -> None:
        super().__init__(world, name)
        self.ledgers = ledgers
        self._is_ready = asyncio.Event()

    async def ready(self) -> None:
        await self._is_ready.wait()

    async def serve(self, process: Process) -> None:
        self._is_ready.clear()
        self.network = NodeNetwork(self.world.network, process)
        self.client = self.new_client(await self.begin_session(self.network), self.network)
        self.report_started(process)
        self._is_ready.set()
