"""Stripes: which bookies store each entry, and how many copies remain if some of them fail.

Rows are entries, columns are ensemble indices. Change E, Qw and Qa, or click the heading of a
bookie to make it fail. The view then shows which entries are safe, whether the writer can continue,
and whether recovery can find the end of the ledger.

Read the modules in this order: `rules`, `picture`.
"""

from collections.abc import Collection
from typing import Any

from labkit.views.widgets.controls import Control, button, number
from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.scene_view import SceneView
from labkit.views.widgets.stripes.picture import legend_of, stripes_scene, summary
from labkit.views.widgets.stripes.rules import Striping

MAX_BOOKIES = 9
MAX_ENTRIES = 20


class Stripes(SceneView):
    """Shows how a ledger with these quorums is striped. `failed` lists the ensemble indices of
    failed bookies.

    Raises `ValueError` unless 9 >= E >= Qw >= Qa >= 1 and there are 1 to 20 entries.
    """

    question = "Which bookies store each entry, and what is at risk if some of them fail?"

    def __init__(
        self,
        ensemble_size: int = 5,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        entries: int = 8,
        failed: Collection[int] = (),
    ) -> None:
        if not MAX_BOOKIES >= ensemble_size >= write_quorum >= ack_quorum >= 1:
            raise ValueError(
                f"expected {MAX_BOOKIES} >= E >= Qw >= Qa >= 1, got"
                f" E={ensemble_size}, Qw={write_quorum}, Qa={ack_quorum}"
            )
        if not 1 <= entries <= MAX_ENTRIES:
            raise ValueError(f"entries must be between 1 and {MAX_ENTRIES}, got {entries}")
        self.entries = entries
        self._show(ensemble_size, write_quorum, ack_quorum, failed)
        super().__init__()

    striping: Striping
    """The displayed quorums and failures."""

    def scene(self) -> Mark:
        return stripes_scene(self.striping, self.entries)

    def legend(self) -> Mark | None:
        return legend_of()

    def choices(self) -> list[Control]:
        """Return the input fields for E, Qw, Qa and the number of entries, and a button that
        restores all bookies.
        """
        e, qw, qa = self._sizes
        return [
            number("E", "Ensemble size E", e, 1, MAX_BOOKIES),
            number("Qw", "Write quorum Qw", qw, 1, e),
            number("Qa", "Ack quorum Qa", qa, 1, qw),
            number("entries", "Entries", self.entries, 1, MAX_ENTRIES),
            button("heal", "End all failures"),
        ]

    def chosen(self, name: str, value: Any) -> None:
        e, qw, qa = self._sizes
        failed = self.striping.failed
        if name == "heal":
            failed = ()
        elif name == "entries":
            self.entries = min(max(int(value), 1), MAX_ENTRIES)
        elif name == "E":
            e = min(max(int(value), 1), MAX_BOOKIES)
        elif name == "Qw":
            qw = min(max(int(value), 1), e)
        else:
            qa = min(max(int(value), 1), qw)
        self._show(e, min(qw, e), min(qa, qw, e), failed)

    def pressed(self, act: str, on: str, seq: int) -> None:
        if act != "fail":
            super().pressed(act, on, seq)
            return
        self._show(*self._sizes, set(self.striping.failed) ^ {int(on)})
        self.redraw()

    def __repr__(self) -> str:
        return summary(self.striping, self.entries)

    @property
    def _sizes(self) -> tuple[int, int, int]:
        shown = self.striping
        return shown.ensemble_size, shown.write_quorum, shown.ack_quorum

    def _show(self, e: int, qw: int, qa: int, failed: Collection[int]) -> None:
        indices = tuple(sorted(index for index in failed if index in range(e)))
        self.striping = Striping(e, qw, qa, indices)
