"""The buttons with which a reader can act on the bookies of a view."""

from typing import NamedTuple


class Acts(NamedTuple):
    """The buttons next to the bookies of a view.

    offered: the available commands and faults.
    undo, node: the fault that created this fork, and the bookie that it affected. That bookie has a
        single button, which undoes the fault.
    """

    offered: tuple[str, ...] = ()
    undo: str = ""
    node: str = ""


NO_ACTS = Acts()
