"""Stripes: which bookies store which entry, and what is left when some of them fail.

Lines are entries, columns the places of an ensemble.  Change E, Qw and Qa, press a bookie's head to
let it fail, and see which entries are safe, whether the writer can go on, and whether the ledger's
end can be found.
"""

from collections.abc import Collection

import traitlets

from labkit.widgets.stripes_rules import Striping
from labkit.widgets.stripes_svg import stripes_svg, summary
from labkit.widgets.view import View, joined

MOST_BOOKIES = 9
MOST_ENTRIES = 20


class Stripes(View):
    """Shows the striping of a ledger with those three numbers; `failed` are places.

    Raises `ValueError` unless 9 >= E >= Qw >= Qa >= 1 and there are 1 to 20 entries.
    """

    _esm = joined("elements.js", "stripes.js")
    _css = joined("view.css", "stripes.css")

    ensemble_size = traitlets.Int(5).tag(sync=True)
    write_quorum = traitlets.Int(3).tag(sync=True)
    ack_quorum = traitlets.Int(2).tag(sync=True)
    entries = traitlets.Int(8).tag(sync=True)
    failed: traitlets.List[int] = traitlets.List(traitlets.Int()).tag(sync=True)
    most = traitlets.Dict({"bookies": MOST_BOOKIES, "entries": MOST_ENTRIES}).tag(sync=True)

    def __init__(
        self,
        ensemble_size: int = 5,
        write_quorum: int = 3,
        ack_quorum: int = 2,
        entries: int = 8,
        failed: Collection[int] = (),
    ) -> None:
        if not MOST_BOOKIES >= ensemble_size >= write_quorum >= ack_quorum >= 1:
            raise ValueError(
                f"E={ensemble_size}, Qw={write_quorum}, Qa={ack_quorum}: shown are"
                f" {MOST_BOOKIES} >= E >= Qw >= Qa >= 1"
            )
        if not 1 <= entries <= MOST_ENTRIES:
            raise ValueError(f"{entries} entries: shown are 1 to {MOST_ENTRIES}")
        super().__init__(
            ensemble_size=ensemble_size,
            write_quorum=write_quorum,
            ack_quorum=ack_quorum,
            entries=entries,
            failed=sorted(place for place in failed if place in range(ensemble_size)),
        )

    @property
    def striping(self) -> Striping:
        """What the picture shows now."""
        return Striping(self.ensemble_size, self.write_quorum, self.ack_quorum, tuple(self.failed))

    def svg(self) -> str:
        """The matrix, and beside it what holds."""
        return stripes_svg(self.striping, self.entries)

    def __repr__(self) -> str:
        return summary(self.striping, self.entries)
