"""Finds a copy that a bookie has acknowledged and lost, before anyone reads it back.

The checks use only events. If a bookie reports a sync too early and then loses power, the checks
detect the loss only when the copy is read back. The simulated disk, however, shows the loss
immediately.
"""

from collections.abc import Mapping, Sequence

from labkit.system.check import Outcome, Verdict, explain
from labkit.system.check.promises.durability import EveryCopyIsDurable
from labkit.system.trace.events import Event


def lost_copy(events: Sequence[Event], lost_syncs: Mapping[int, int]) -> Verdict | None:
    """Return the verdict for the first lost copy, or None if no copy has been lost.

    lost_syncs: the `seq` of each event that reports the sync of a record that the disk has since
        lost, with the `seq` of the power cut.
    """
    for sync, cut in lost_syncs.items():
        bookie, ledger, entry = events[sync].node, events[sync].ledger, events[sync].entry
        of_entry = [each for each in events if (each.ledger, each.entry) == (ledger, entry)]
        acks = [each for each in of_entry if each.kind == "add.acked" and each.peer == bookie]
        is_stored_again = any(
            each.kind == "memtable.put" and each.node == bookie and each.seq > cut
            for each in of_entry
        )
        if acks and not is_stored_again:
            last = events[max(acks[0].seq, cut)]
            verdict = Verdict(
                EveryCopyIsDurable.__name__,
                EveryCopyIsDurable.promise,
                Outcome.INVALID,
                1,
                f"{bookie} has lost entry {entry} of ledger {ledger}, although it had"
                " acknowledged the entry.",
                last.seq,
                last.time_us,
                (acks[0].seq, cut),
            )
            return explain(verdict, events)
    return None
