"""The ensemble history: where a ledger was stored, from each moment to the next.

A line of the picture is a moment, a column a range of entries, and in it stand the places of the
ensemble one below the other.  A box is filled as far as its copies are durable; a bookie that took
another's place has a frame.  Choose a moment to read it in words; point at a bookie to see it
everywhere.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import traitlets

from labkit.trace.events import Event
from labkit.widgets.ensemble_moments import HasEvents, moments_of, newest_ledger
from labkit.widgets.ensemble_svg import LEGEND, columns_of, ensemble_svg, summary
from labkit.widgets.view import View, joined


class EnsembleHistory(View):
    """Shows the history of one ledger.

    source: a run, a log, or a list of events; a simulated run is shown up to its epilogue.
    ledger: the ledger's id, the newest by default.
    """

    _esm = joined("elements.js", "ensemble_history.js")
    _css = joined("view.css", "ensemble_history.css")

    history = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int().tag(sync=True)

    def __init__(self, source: HasEvents | Sequence[Event], ledger: int | None = None) -> None:
        """Raises `ValueError` for a ledger whose creation is not among the events."""
        events = source if isinstance(source, Sequence) else source.events
        ledger_id = newest_ledger(events) if ledger is None else ledger
        if not any(e.kind == "ledger.created" and e.ledger == ledger_id for e in events):
            raise ValueError(f"the events do not tell how ledger {ledger_id} was created")
        self.moments = moments_of(events, ledger_id)
        self.ledger_id = ledger_id
        super().__init__(history=self._data(), chosen=len(self.moments) - 1)

    def svg(self) -> str:
        """All moments, one below the other."""
        return ensemble_svg(self.moments, self.ledger_id)

    def __repr__(self) -> str:
        return summary(self.moments, self.ledger_id)

    def _data(self) -> dict[str, Any]:
        return {
            "ledger": self.ledger_id,
            "columns": [asdict(column) for column in columns_of(self.moments)],
            "moments": [asdict(moment) for moment in self.moments],
            "legend": LEGEND,
        }
