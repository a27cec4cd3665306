"""The paths of ledger nodes, as defined by BookKeeper's four ledger managers.

The node LAYOUT names the ledger manager, which never changes. The path of a ledger consists of its
decimal id, split into groups of digits, and an `L` before the last group:

    flat               12345 -> L0000012345
    legacyhierarchical 12345 -> 00/0001/L2345
    longhierarchical   12345 -> 000/0000/0000/0001/L2345
    hierarchical       like legacyhierarchical below 2147483647, otherwise like longhierarchical

In BookKeeper: `meta/LedgerLayout.java`, `meta/*LedgerManagerFactory.java`, `util/StringUtils.java`.
"""

import re
from dataclasses import dataclass

from labkit.system.model.errors import BKIncorrectParameterException, LabkitError

SHORT_ID_LIMIT = 2**31 - 1

_FORMAT = "2"
_MANAGER_VERSION = "1"
_PACKAGE = "org.apache.bookkeeper.meta."


class ForeignLayoutError(LabkitError):
    """The layout is not the requested one, or labkit does not support it."""


@dataclass(frozen=True, slots=True)
class LedgerLayout:
    """A ledger manager.

    `shapes[0]` contains the sizes of the digit groups for short ids, and `shapes[-1]` those for
    long ids.
    """

    name: str
    factory: str
    shapes: tuple[tuple[int, ...], ...]
    id_folder: str
    long_ids: bool

    def path_of(self, ledger_id: int) -> str:
        """Return the path of a ledger's node, relative to the root path of the ledgers.

        Raises `BKIncorrectParameterException` if the id has more digits than the layout supports.
        """
        shape = self.shapes[0] if ledger_id < SHORT_ID_LIMIT else self.shapes[-1]
        digits = f"{ledger_id:0{sum(shape)}d}"
        if ledger_id < 0 or len(digits) > sum(shape):
            raise BKIncorrectParameterException(
                f"ledger id {ledger_id} does not fit the {self.name} layout, which has"
                f" {sum(shape)} digits"
            )
        groups = []
        for size in shape:
            groups.append(digits[:size])
            digits = digits[size:]
        return "/".join((*groups[:-1], f"L{groups[-1]}"))

    @property
    def factory_class(self) -> str:
        return f"{_PACKAGE}{self.factory}"

    def encode(self) -> bytes:
        return f"{_FORMAT}\n{self.factory_class}:{_MANAGER_VERSION}".encode()


FLAT = LedgerLayout("flat", "FlatLedgerManagerFactory", ((10,),), "", long_ids=False)
LEGACY_HIERARCHICAL = LedgerLayout(
    "legacyhierarchical", "LegacyHierarchicalLedgerManagerFactory", ((2, 4, 4),), "/idgen", False
)
LONG_HIERARCHICAL = LedgerLayout(
    "longhierarchical", "LongHierarchicalLedgerManagerFactory", ((3, 4, 4, 4, 4),), "/idgen", True
)
HIERARCHICAL = LedgerLayout(
    "hierarchical",
    "HierarchicalLedgerManagerFactory",
    LEGACY_HIERARCHICAL.shapes + LONG_HIERARCHICAL.shapes,
    "/idgen",
    long_ids=True,
)
"""BookKeeper's default for a new cluster."""

LAYOUTS = {
    layout.name: layout for layout in (HIERARCHICAL, FLAT, LEGACY_HIERARCHICAL, LONG_HIERARCHICAL)
}


def decode_ledger_layout(data: bytes) -> LedgerLayout:
    """Decode the node LAYOUT, which contains the factory class or, in format 1, a short name.

    Raises `ForeignLayoutError`.
    """
    found = re.fullmatch(r"([12])\n(.+):1\s*", data.decode(errors="replace"))
    if found is not None:
        for layout in LAYOUTS.values():
            name = layout.name if found[1] == "1" else layout.factory_class
            if found[2] == name:
                return layout
    raise ForeignLayoutError(
        f"unknown LAYOUT {data[:100].decode(errors='replace')!r}; labkit supports the ledger"
        f" managers {', '.join(LAYOUTS)}, version {_MANAGER_VERSION}"
    )
