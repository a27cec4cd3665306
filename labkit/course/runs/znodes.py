"""What the metadata store of a simulated cluster holds at some moment."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from labkit.system.metadata.ledger_layout import LedgerLayout
from labkit.system.metadata.place import DEFAULT_LEDGERS_ROOT
from labkit.system.model.byte_region import Piece
from labkit.system.model.ledger import LedgerMetadata, decode_ledger_metadata
from labkit.system.model.ledger_spans import ledger_metadata_spans
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import START, Moment

_MOST_TEXT = 46


@dataclass(frozen=True, slots=True, repr=False)
class Znodes:
    """Every node below `/ledgers`: its data and its version, by path."""

    nodes: dict[str, tuple[bytes, int]]

    def ledger(self, number: int = 0) -> tuple[LedgerMetadata, int]:
        """A ledger's metadata and version, by its order among all.

        Raises `IndexError` when there are fewer.
        """
        data, version = self.nodes[self._ledgers[number]]
        return decode_ledger_metadata(data), version

    def piece(self, number: int = 0) -> Piece:
        """The bytes of a ledger's node, for the byte X-ray.  Raises as `ledger`."""
        path = self._ledgers[number]
        data, version = self.nodes[path]
        spans = tuple(ledger_metadata_spans(data))
        return Piece(f"{path}, version {version}", "", 0, data, spans, len(data))

    @property
    def _ledgers(self) -> list[str]:
        return [path for path in self.nodes if path.rpartition("/")[2].startswith("L0")]

    def __repr__(self) -> str:
        lines = []
        for path, (data, version) in self.nodes.items():
            name, depth = path.rpartition("/")[2], path.count("/") - 1
            words = ""
            if path in self._ledgers:
                words = f"{len(data)} bytes, version {version}"
            elif data:
                text = data.decode(errors="replace").replace("\n", " ").strip()
                words = text if text.isprintable() else f"{len(data)} bytes"
                words = words if len(words) <= _MOST_TEXT else words[: _MOST_TEXT - 1] + "…"
            lines.append(f"{'   ' * depth}{name:<{28 - 3 * depth}} {words}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ReadZnodes:
    """A step of a workload: read the tree below a node, one after the other."""

    client: str = "look"
    when: Moment = START
    root: str = DEFAULT_LEDGERS_ROOT
    found: dict[str, tuple[bytes, int]] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        return "look at the metadata"

    async def run(self, node: ClientNode) -> None:
        """Do it."""
        waiting = [self.root]
        while waiting:
            path = waiting.pop()
            self.found[path] = await node.client.store.get(path)
            children = await node.client.store.children(path)
            waiting += [f"{path}/{name}" for name in reversed(children)]


@dataclass(frozen=True, slots=True)
class SetLayout:
    """A step of a workload: name another ledger manager in LAYOUT, before any ledger is created."""

    layout: LedgerLayout
    client: str = "admin"
    when: Moment = START

    def __str__(self) -> str:
        return f"set the layout {self.layout.name}"

    async def run(self, node: ClientNode) -> None:
        """Do it."""
        store = node.client.store
        await store.set(f"{DEFAULT_LEDGERS_ROOT}/LAYOUT", self.layout.encode(), 0)


def znodes_of(
    scenario: Scenario, moments: Iterable[Moment], root: str = DEFAULT_LEDGERS_ROOT
) -> list[Znodes]:
    """The cluster's nodes below `root` at each of the moments of one run.

    Reading takes time, half a millisecond a node: the fewer, the more they belong together.
    """
    looks = [ReadZnodes(f"look{number}", when, root) for number, when in enumerate(moments)]
    run(replace(scenario, workload=(*scenario.workload, *looks)))
    return [Znodes(look.found) for look in looks]
