"""How a cluster lays out the nodes of its ledgers: the four ledger managers of BookKeeper.

The node LAYOUT names the manager, once for the life of the cluster.  A ledger's path is its id in
decimal digits, cut into groups, the last one behind an `L`:

    flat               12345 -> L0000012345
    legacyhierarchical 12345 -> 00/0001/L2345
    longhierarchical   12345 -> 000/0000/0000/0001/L2345
    hierarchical       as legacyhierarchical below 2147483647, from there on as longhierarchical

In BookKeeper: `meta/LedgerLayout.java`, `meta/*LedgerManagerFactory.java`, `util/StringUtils.java`.
"""

import re
from dataclasses import dataclass

from labkit.system.model.errors import BKIncorrectParameterException, LabkitError

SHORT_ID_LIMIT = 2**31 - 1
"""Ids below it are short."""

_FORMAT = "2"
_MANAGER_VERSION = "1"
_PACKAGE = "org.apache.bookkeeper.meta."


class ForeignLayoutError(LabkitError):
    """The cluster's layout is not the one asked for, or labkit does not know it."""


@dataclass(frozen=True, slots=True)
class LedgerLayout:
    """A ledger manager.  `shapes` are its groups of digits: for short ids, and for long ones."""

    name: str
    factory: str
    shapes: tuple[tuple[int, ...], ...]
    id_folder: str
    long_ids: bool

    def path_of(self, ledger_id: int) -> str:
        """A ledger's node, below the root of all ledgers.

        Raises `BKIncorrectParameterException` for an id with more digits than the layout has.
        """
        shape = self.shapes[0] if ledger_id < SHORT_ID_LIMIT else self.shapes[-1]
        digits = f"{ledger_id:0{sum(shape)}d}"
        if ledger_id < 0 or len(digits) > sum(shape):
            raise BKIncorrectParameterException(
                f"ledger id {ledger_id} does not fit the layout {self.name}: it has"
                f" {sum(shape)} digits"
            )
        groups = []
        for size in shape:
            groups.append(digits[:size])
            digits = digits[size:]
        return "/".join((*groups[:-1], f"L{groups[-1]}"))

    @property
    def factory_class(self) -> str:
        """The manager's class in BookKeeper, with its package."""
        return f"{_PACKAGE}{self.factory}"

    def encode(self) -> bytes:
        """The content of the node LAYOUT."""
        return f"{_FORMAT}\n{self.factory_class}:{_MANAGER_VERSION}".encode()


FLAT = LedgerLayout("flat", "FlatLedgerManagerFactory", ((10,),), "", long_ids=False)
LEGACY_HIERARCHICAL = LedgerLayout(
    "legacyhierarchical",
    "LegacyHierarchicalLedgerManagerFactory",
    ((2, 4, 4),),
    "/idgen",
    long_ids=False,
)
LONG_HIERARCHICAL = LedgerLayout(
    "longhierarchical",
    "LongHierarchicalLedgerManagerFactory",
    ((3, 4, 4, 4, 4),),
    "/idgen",
    long_ids=True,
)
HIERARCHICAL = LedgerLayout(
    "hierarchical",
    "HierarchicalLedgerManagerFactory",
    LEGACY_HIERARCHICAL.shapes + LONG_HIERARCHICAL.shapes,
    "/idgen",
    long_ids=True,
)
"""BookKeeper's choice for a new cluster."""

LAYOUTS = {
    layout.name: layout for layout in (HIERARCHICAL, FLAT, LEGACY_HIERARCHICAL, LONG_HIERARCHICAL)
}


def decode_ledger_layout(data: bytes) -> LedgerLayout:
    """The layout that a node LAYOUT names, by class or, in format 1, by its short name.

    Raises `ForeignLayoutError`.
    """
    found = re.fullmatch(r"([12])\n(.+):1\s*", data.decode(errors="replace"))
    if found is not None:
        for layout in LAYOUTS.values():
            name = layout.name if found[1] == "1" else layout.factory_class
            if found[2] == name:
                return layout
    raise ForeignLayoutError(
        f"the node LAYOUT says {data[:100].decode(errors='replace')!r}; labkit knows the ledger"
        f" managers {', '.join(LAYOUTS)}, version {_MANAGER_VERSION}"
    )
