"""The form in which a reader chooses the fault to inject right after the current event."""

from typing import Any

from labkit.views.widgets.controls import Control, button, choice, number
from labkit.views.widgets.timeline.runs import Palette

_DISKS = (("lost", "lost"), ("kept", "kept"), ("torn", "torn"))
_DIRECTIONS = (("both", "both ways"), ("out", "outgoing only"), ("in", "incoming only"))
_LABELS = {
    "node": "node",
    "target": "and",
    "disk": "unsynced data",
    "direction": "direction",
    "extra_ms": "extra ms",
    "for_ms": "for ms (0: forever)",
}


class FaultForm:
    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self.values: dict[str, Any] = {
            "fault": "crash",
            "node": palette.nodes[0],
            "target": palette.nodes[-1],
            "disk": "lost",
            "direction": "both",
            "extra_ms": 20,
            "for_ms": 0,
        }
        if "crash" not in [name for name, _, _ in palette.faults]:
            self.values["fault"] = palette.faults[0][0]

    def fault(self) -> dict[str, Any]:
        return {
            "name": self.values["fault"],
            **{name: self.values[name] for name in self._fields()},
        }

    def choices(self) -> list[Control]:
        faults = ((name, label) for name, label, _ in self.palette.faults)
        return [
            choice("fault", "What if, just after this event:", self.values["fault"], faults),
            *map(self._field, self._fields()),
            button("fork", "Fork the run"),
        ]

    def _fields(self) -> list[str]:
        of_fault = {name: fields for name, _, fields in self.palette.faults}
        return [name for name in of_fault[self.values["fault"]] if name in _LABELS]

    def _field(self, name: str) -> Control:
        if name.endswith("_ms"):
            return number(name, _LABELS[name], self.values[name], step="any")
        nodes = tuple((node, node) for node in self.palette.nodes)
        options = {"disk": _DISKS, "direction": _DIRECTIONS}.get(name, nodes)
        return choice(name, _LABELS[name], self.values[name], options)
