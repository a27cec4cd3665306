"""Finds out when a record was actually synced if a bookie reports the sync too early.

A bookie with a bug may report a sync although the disk can still lose the record. The events do not
show this, but the state of the simulated disk does.
"""

from labkit.system.trace.events import Event
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.scenario.scenario import Scenario


class LateSyncWorld(ChosenOrderWorld):
    """A world that compares each reported sync with the state of the disk."""

    def __init__(self, scenario: Scenario, loop: SimLoop) -> None:
        self.late_syncs: dict[int, int] = {}
        """The events that report a sync too early. Maps the number of each event to the number of
        events before the record was actually synced, or to -1 if the record has not been synced
        yet.
        """
        self._unsynced: dict[int, Event] = {}
        """The events in `late_syncs` whose records the disk can still lose."""
        self.lost_syncs: dict[int, int] = {}
        """The events in `late_syncs` whose records the disk has lost. Maps the number of each event
        to the number of the power cut.
        """
        super().__init__(scenario, loop)

    def receive_events(self, rows: list[Event]) -> None:
        first = len(self.rows)
        if not self.recording_stopped:
            for number, row in enumerate(rows, first):
                self._note_sync(number, row)
        super().receive_events(rows)

    def _note_sync(self, number: int, row: Event) -> None:
        if row.kind == "node.killed":
            mine = [key for key, each in self._unsynced.items() if each.node == row.node]
            for key in mine:
                del self._unsynced[key]
                self.lost_syncs[key] = number
        for key, each in list(self._unsynced.items()):
            if self._is_on_disk(each):
                self.late_syncs[key] = number
                del self._unsynced[key]
        if row.kind == "journal.synced" and not self._is_on_disk(row):
            self._unsynced[number], self.late_syncs[number] = row, -1

    def _is_on_disk(self, row: Event) -> bool:
        """Return whether this journal record would survive if the power failed now."""
        return not any(
            each.path.endswith(row.file) and each.offset <= row.offset < each.end
            for disk in self.machines[row.node].journals
            for each in disk.unsynced()
        )
