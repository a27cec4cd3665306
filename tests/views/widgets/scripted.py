"""Traces written by hand, without a real cluster, for the tests of the views."""

from collections.abc import Callable, Iterable
from typing import Any

from labkit.system.trace.log import TraceLog
from labkit.system.trace.recorder import Recorder

LEDGER = 7


class Script:
    """Writes the events of a small cluster to a log, one entry at a time.

    Each event advances the script's clock by 1,000 µs.
    """

    def __init__(self, bookie_count: int, ensemble_size: int, write_quorum: int, ack_quorum: int):
        self.log = TraceLog()
        self.now_us = 0
        self.names = [f"b{i}" for i in range(bookie_count)]
        self.ensemble = self.names[:ensemble_size]
        self.write_quorum, self.ack_quorum = write_quorum, ack_quorum
        self.down: set[str] = set()
        self.paused: set[str] = set()
        self.offsets = dict.fromkeys(self.names, 512)
        self.stored: dict[str, list[tuple[int, int]]] = {name: [] for name in self.names}
        self.recorders = {name: self._recorder(name) for name in ("writer", "reader", *self.names)}
        for name in self.names:
            self.record(name, "node.started")
            self.record(name, "bookie.registered")
        self.create(LEDGER)

    def _recorder(self, name: str) -> Recorder:
        def tick() -> int:
            self.now_us += 1000
            return self.now_us

        recorder = Recorder(name, tick)
        recorder.listen(self.log.add)
        return recorder

    def record(self, node: str, kind: str, *args: int, **fields: Any) -> None:
        self.recorders[node].record(kind, *args, **fields)

    def create(self, ledger: int) -> None:
        self.record(
            "writer",
            "ledger.created",
            ledger,
            ensemble_size=len(self.ensemble),
            write_quorum=self.write_quorum,
            ack_quorum=self.ack_quorum,
        )
        self.record("writer", "ensemble.set", ledger, 0, ensemble=(*self.ensemble,))

    def write_set(self, entry: int) -> list[str]:
        size = len(self.ensemble)
        return [self.ensemble[(entry + i) % size] for i in range(self.write_quorum)]

    def push(self, entry: int, ledger: int = LEDGER) -> None:
        self.record("writer", "add.pushed", ledger, entry)
        for bookie in self.write_set(entry):
            self.record("writer", "add.sent", ledger, entry, peer=bookie)

    def put(self, entry: int, bookies: Iterable[str], ledger: int = LEDGER) -> None:
        for bookie in bookies:
            self.record(bookie, "memtable.put", ledger, entry)
            self.record(
                bookie,
                "journal.appended",
                ledger,
                entry,
                file="1a1fd4e0551.txn",
                offset=self.offsets[bookie],
            )
            self.offsets[bookie] += 96
            self.stored[bookie].append((ledger, entry))

    def sync(self, entry: int, bookies: Iterable[str], ledger: int = LEDGER) -> None:
        for bookie in bookies:
            self.record(bookie, "journal.synced", ledger, entry, size=1)
        for bookie in bookies:
            self.record("writer", "add.acked", ledger, entry, peer=bookie)

    def add(self, entry: int, ledger: int = LEDGER) -> None:
        self.push(entry, ledger)
        reached = [b for b in self.write_set(entry) if b not in self.down | self.paused]
        self.put(entry, reached, ledger)
        self.sync(entry, reached, ledger)
        for bookie in self.write_set(entry):
            if bookie in self.down:
                self.record(
                    "writer", "add.failed", ledger, entry, peer=bookie, error="connection refused"
                )
        if len(reached) >= self.ack_quorum:
            self.record("writer", "lac.advanced", ledger, entry)

    def kill(self, bookie: str) -> None:
        self.down.add(bookie)
        self.record(bookie, "node.killed")

    def restart(self, bookie: str) -> None:
        self.down.discard(bookie)
        self.record(bookie, "journal.replayed", file="1a1fd4e0551.txn", size=4)
        self.record(bookie, "node.started")

    def pause(self, bookie: str) -> None:
        self.paused.add(bookie)
        self.record(bookie, "node.paused")

    def flush(self, bookie: str) -> None:
        for place, (ledger, entry) in enumerate(self.stored[bookie]):
            self.record(
                bookie, "entry_log.written", ledger, entry, file="0.log", offset=1024 + 96 * place
            )
        self.record(bookie, "memtable.flushed", size=len(self.stored[bookie]))
        self.stored[bookie].clear()

    def read(self, entry: int, bookie: str, place: str = "memtable") -> None:
        self.record("reader", "read.sent", LEDGER, entry, peer=bookie)
        self.record(bookie, "read.served", LEDGER, entry, peer="reader", detail=place)
        self.record("reader", "read.done", LEDGER, entry, peer=bookie)

    def settled(self) -> TraceLog:
        self.log.settle()
        return self.log


def killed_and_restarted() -> TraceLog:
    """Write ten entries (E=4, Qw=3, Qa=2); b1 is down from entry 5 to entry 8."""
    script = Script(4, 4, 3, 2)
    for entry in range(10):
        script.add(entry)
        if entry == 5:
            script.kill("b1")
        if entry == 8:
            script.restart("b1")
    for entry in range(10):
        script.read(entry, script.write_set(entry)[0])
    script.record("writer", "ledger.closed", LEDGER, 9)
    return script.settled()


def everything_at_once() -> TraceLog:
    """Write 40 entries to five bookies.

    The log contains flushes, an ensemble change, a bookie that is down, a bookie that is paused,
    and adds that are lost or still in flight.
    """
    script = Script(5, 3, 3, 2)
    for entry in range(40):
        script.add(entry)
        if entry == 14:
            script.flush("b0")
        if entry == 20:
            script.flush("b2")
        if entry == 29:
            script.push(30)
            script.put(30, ["b1"])
            script.kill("b1")
            script.ensemble = ["b0", "b3", "b2"]
            script.record("writer", "ensemble.set", LEDGER, 30, ensemble=(*script.ensemble,))
        if entry == 35:
            script.pause("b2")
    script.push(40)
    script.put(40, ["b0"])
    script.read(12, "b0", "entry log")
    return script.settled()


def two_ledgers() -> TraceLog:
    """Write a ledger of three entries, then another one on the same bookies."""
    script = Script(3, 3, 2, 2)
    for entry in range(3):
        script.add(entry)
    script.record("writer", "ledger.closed", LEDGER, 2)
    script.create(8)
    for entry in range(2):
        script.add(entry, ledger=8)
    return script.settled()


class ScriptedCluster:
    """A fake cluster that only writes a log. A live view can follow the cluster and send commands
    to it.
    """

    def __init__(self, script: Script) -> None:
        self.script = script
        self.bookie_names = script.names
        self.is_stopped = False
        script.log.settle()

    @property
    def trace(self) -> TraceLog:
        return self.script.log

    def add(self, entry_count: int) -> None:
        """Let the writer add `entry_count` more entries."""
        pushed = (event.entry for event in self.trace.events if event.kind == "add.pushed")
        first = max(pushed, default=-1) + 1
        for entry in range(first, first + entry_count):
            self.script.add(entry)
        self.script.log.settle()

    async def kill(self, name: str) -> None:
        if name in self.script.down:
            raise LookupError(f"{name} is not running; restart it first")
        self.script.kill(name)
        self.script.log.settle()

    async def restart(self, name: str) -> None:
        self.script.restart(name)
        self.script.log.settle()

    async def pause(self, name: str) -> None:
        self.script.pause(name)
        self.script.log.settle()

    async def resume(self, name: str) -> None:
        self.script.paused.discard(name)
        self.script.record(name, "node.resumed")
        self.script.log.settle()


SCRIPTS: dict[str, Callable[[], TraceLog]] = {
    script.__name__: script for script in (killed_and_restarted, everything_at_once, two_ledgers)
}
