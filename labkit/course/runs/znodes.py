"""Reads the contents of a simulated cluster's metadata store at given moments."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from labkit.course.runs.do_step import Do
from labkit.system.metadata.ledger_layout import LAYOUTS
from labkit.system.metadata.location import DEFAULT_LEDGERS_ROOT
from labkit.system.model.ledger import LedgerMetadata, decode_ledger_metadata
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.ledger_spans import ledger_metadata_spans
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, Moment
from labkit.worlds.sim.workload.steps import Write

_MAX_TEXT = 46


@dataclass(frozen=True, slots=True, repr=False)
class Znodes:
    """The data and version of every znode under `/ledgers`, keyed by path."""

    nodes: dict[str, tuple[bytes, int]]

    def ledger(self, number: int = 0) -> tuple[LedgerMetadata, int]:
        """Return the metadata and version of the `number`th ledger.

        Raises `IndexError` if there are fewer ledgers.
        """
        data, version = self.nodes[self._ledgers[number]]
        return decode_ledger_metadata(data), version

    def piece(self) -> Piece:
        """Return the bytes of the first ledger's znode, for the byte X-ray. Raises `IndexError`."""
        path = self._ledgers[0]
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
            summary = ""
            if path in self._ledgers:
                summary = f"{len(data)} bytes, version {version}"
            elif data:
                text = data.decode(errors="replace").replace("\n", " ").strip()
                summary = text if text.isprintable() else f"{len(data)} bytes"
                summary = summary if len(summary) <= _MAX_TEXT else summary[: _MAX_TEXT - 1] + "…"
            lines.append(f"{'   ' * depth}{name:<{28 - 3 * depth}} {summary}".rstrip())
        return "\n".join(lines)


async def _read_znodes(node: ClientNode, root: str) -> Znodes:
    found, waiting = {}, [root]
    while waiting:
        path = waiting.pop()
        found[path] = await node.client.store.get(path)
        children = await node.client.store.children(path)
        waiting += [f"{path}/{name}" for name in reversed(children)]
    return Znodes(found)


def znodes_of(
    scenario: Scenario, moments: Iterable[Moment], root: str = DEFAULT_LEDGERS_ROOT
) -> list[Znodes]:
    """Run the scenario, and return the znodes under `root` at each of these moments.

    Reading takes half a millisecond per znode, so the fewer znodes there are under `root`, the more
    consistent each snapshot is.
    """
    read = partial(_read_znodes, root=root)
    looks = [Do(read, f"look{number}", when) for number, when in enumerate(moments)]
    run(replace(scenario, workload=(*scenario.workload, *looks)))
    return [look.result() for look in looks]


def ledger_paths(layout: str) -> list[str]:
    """Return the paths that the given ledger manager uses for three ledgers."""

    async def set_layout(node: ClientNode) -> None:
        path = f"{DEFAULT_LEDGERS_ROOT}/LAYOUT"
        await node.client.store.set(path, LAYOUTS[layout].encode(), 0)

    writes = [Write(n, 1, ensemble=3, client=f"w{n}", when=At(50)) for n in range(3)]
    scenario = Scenario(Cluster(3), (Do(set_layout, "admin"), *writes))
    (znodes,) = znodes_of(scenario, [At(200)])
    return [path for path in znodes.nodes if path.rpartition("/")[2].startswith("L00")]
