"""One plain sentence per event, as data: Python and the views in a browser fill the same templates.

In a template `{name}` is a field of the event, and a part in square brackets is left out when a
field in it does not apply (-1 or "").
"""

import re
from collections.abc import Mapping

from labkit.system.trace.events import Event

SENTENCES: dict[str, str] = {
    "node.started": "{node} is up and serving",
    "node.killed": "{node} was killed: its memory is lost, its files are kept",
    "node.paused": "{node} was paused: it does not answer",
    "node.resumed": "{node} goes on after the pause",
    "node.failed": "a mistake in {node}'s code: {note}",
    "clock.skewed": "{node}'s clock goes wrong: {note}",
    "disk.bad": "{node}'s disks go bad: {note}",
    "bookie.formatted": "{node} was formatted: its disks are empty, and its cookie is deleted",
    "disk.good": "{node}'s disks are {note}",
    "disk.rotted": "a bit flipped in {file} of {node}[ at offset {offset}]"
    "[, and in each of the {size} bytes from there on]",
    "link.cut": "nothing that {node} sends to {peer} comes through any more",
    "link.healed": "what {node} sent to {peer} comes through again",
    "message.lost": "message {note} of {node} to {peer} is lost",
    "message.copied": "message {note} of {node} to {peer} comes twice",
    "message.swapped": "message {note} of {node} to {peer} is overtaken",
    "session.lost": "the metadata store ended {node}'s session[: {note}]",
    "metadata.hung": "the metadata server hangs[; sessions last {note}]",
    "metadata.resumed": "the metadata server goes on: some sessions may be over",
    "step.started": "{node} begins to {note}",
    "step.ended": "{node} has ended: {note}",
    "epilogue.started": "all faults are repaired, and every entry is looked up",
    "ledger.unreadable": "ledger {ledger} cannot be opened: {note}",
    "bookie.registered": "{node} registered itself: it takes writes",
    "bookie.unregistered": "{node} is no longer registered[: {note}]",
    "ledger.created": "{node} created ledger {ledger}[ with {note}]",
    "ensemble.set": "ledger {ledger} is stored on {note} from entry {entry} on",
    "ensemble.changing": "{node} replaces bookies of ledger {ledger} from entry {entry} on"
    "[: {note}]",
    "ensemble.deferred": "{node} stores ledger {ledger} on {note} from entry {entry} on;"
    " the metadata will say so when it is closed",
    "add.pushed": "{node} gave a payload the entry id {entry} in ledger {ledger}",
    "add.sent": "{node} sent entry {entry} of ledger {ledger} to {peer}",
    "memtable.put": "{node} put entry {entry} of ledger {ledger} into its memtable,"
    " not yet durable",
    "journal.appended": "{node} appended entry {entry} of ledger {ledger} to its journal"
    "[ {file}][ at offset {offset}], not yet synced",
    "journal.key_appended": "{node} appended the master key of ledger {ledger} to its journal"
    "[ {file}][ at offset {offset}], not yet synced",
    "journal.fence_appended": "{node} appended the fence of ledger {ledger} to its journal"
    "[ {file}][ at offset {offset}], not yet synced",
    "journal.lac_appended": "{node} appended an explicit LAC of ledger {ledger} to its journal"
    "[ {file}][ at offset {offset}], not yet synced",
    "journal.synced": "{node} synced its journal[: entry {entry} of ledger {ledger} is"
    " durable there]",
    "add.acked": "{node} got the acknowledgement of {peer} for entry {entry} of ledger {ledger}",
    "add.failed": "{node} gets no acknowledgement of {peer} for entry {entry} of ledger {ledger}"
    "[: {note}]",
    "lac.advanced": "entry {entry} of ledger {ledger} is confirmed: LastAddConfirmed moves",
    "ledger.closed": "ledger {ledger} is closed[; its last entry is {entry}]",
    "ledger.deleting": "{node} asks the metadata store to delete ledger {ledger}",
    "ledger.deleted": "ledger {ledger} is deleted",
    "recovery.started": "{node} began to recover ledger {ledger}[, stored on {note}]",
    "fence.sent": "{node} asked {peer} to fence ledger {ledger}",
    "ledger.fenced": "{node} fenced ledger {ledger}: it takes only recovery's adds",
    "fence.answered": "{peer} told {node} that ledger {ledger} is fenced"
    "[ and confirmed to {entry}]",
    "fence.failed": "{peer} did not tell {node} that ledger {ledger} is fenced[: {note}]",
    "recovery.covered": "{node} has fenced enough bookies of ledger {ledger}"
    "[; confirmed is at least {entry}]",
    "recovery.ended": "{node} recovered ledger {ledger}[; its last entry is {entry}]",
    "recovery.failed": "{node} could not recover ledger {ledger}[: {note}]",
    "entry_log.written": "{node} wrote entry {entry} of ledger {ledger} to its entry log"
    "[ {file}][ at offset {offset}]",
    "index.written": "{node} wrote where entry {entry} of ledger {ledger} lies to its index"
    "[ {file}]",
    "memtable.flushed": "{node} flushed its memtable to entry log and index[, entries: {size}]",
    "mark.persisted": "{node} moved LastLogMark[ to {file}][ offset {offset}]",
    "journal.replayed": "{node} read its journal again[, records: {size}]",
    "bookie.read_only": "{node} takes no more adds[: {note}]",
    "bookie.writable": "{node} takes writes again[: {note}]",
    "ledger.collected": "{node} dropped ledger {ledger}, which was deleted",
    "garbage.collected": "{node} dropped ledgers that were deleted[, how many: {size}]",
    "ledger.dropped": "{node} gave up its copies of ledger {ledger}: others have it instead",
    "garbage.kept": "{node} collected no garbage[: {note}]",
    "log.compacted": "{node} copied what lives in entry log {file} and removed it",
    "log.removed": "{node} removed entry log {file}: no ledger was left in it",
    "read.sent": "{node} asked {peer} for entry {entry} of ledger {ledger}",
    "read.served": "{node} found entry {entry} of ledger {ledger}[: {note}]",
    "read.done": "{node} has entry {entry} of ledger {ledger} from {peer}, digest verified",
    "read.failed": "{peer} did not give {node} entry {entry} of ledger {ledger}[: {note}]",
    "lac.read": "{node} learned LastAddConfirmed of ledger {ledger}[: {entry}]",
    "auditor.elected": "{node} became the auditor",
    "auditor.delay": "{node} gives bookies {note} to come back before they count as lost",
    "bookie.lost": "{node} took {peer} for lost",
    "ledger.underreplicated": "{node} marked ledger {ledger} as short of copies[: {note}]",
    "replication.started": "{node} began to repair ledger {ledger}",
    "entry.copied": "{node} stored entry {entry} of ledger {ledger} on {peer}",
    "fragment.replicated": "{node} repaired ledger {ledger} from entry {entry} on[: {note}]",
    "replication.done": "{node} repaired ledger {ledger}: all its copies are there",
    "replication.deferred": "{node} put off the repair of ledger {ledger}[: {note}]",
    "placement.unmet": "{node} found too few racks[ below ledger {ledger}][: {note}]",
    "ledger.unchecked": "{node} could not look at ledger {ledger}[: {note}]",
    "replicas.missing": "{node} found too few copies in ledger {ledger}[: {note}]",
    "autorecovery.restarted": "{node} began autorecovery again in another session[: {note}]",
    "batch.stored": "a batch is stored as entry {entry} of ledger {ledger}[, messages: {size}]",
    "message.acked": "{node} has the receipt of {note}"
    "[: stored as entry {entry} of ledger {ledger}]",
    "message.found": "{note} is in entry {entry} of ledger {ledger}",
    "topic.unread": "{node} could not read a topic[: {note}]",
    "topic.read": "{node} has read all of {note}[, entries: {size}]",
    "deduplication.rebuilt": "{node} knows what {note} has of each producer"
    "[, entries read again: {size}]",
    "bundle.acquired": "{node} owns the topics of {note}",
    "bundle.lost": "{node} owns the topics of {note} no longer: its session was lost",
    "bundle.released": "{node} gave up the topics of {note}",
    "topic.opened": "{node} serves {note}",
    "topic.closed": "{node} closed {note}",
    "topic.ended": "{node} stopped serving a topic[: {note}]",
    "entry.discarded": "a client threw entry {entry} of ledger {ledger} away unread[: {note}]",
    "cursor.unstored": "{node} could not store acknowledgements[: {note}]",
    "ledger.rolled": "the partition goes on in ledger {ledger}[: {note}]",
    "ledger.delayed": "ledger {ledger} took no entry, and the partition waits[: {note}]",
    "dispatch.delayed": "{node} could not read what consumers are to get[: {note}]",
    "expiry.failed": "{node} could not expire messages[: {note}]",
}
"""A template for every kind of event."""

COPIES: dict[str, str] = {
    "sent": "sent, not yet there",
    "memtable": "in its memtable, not yet durable"
    "[; not synced: journal {journal_file}][ offset {journal_offset}]",
    "durable": "durable[, journal {journal_file}][ offset {journal_offset}]",
    "flushed": "flushed[, entry log {log_file}][ offset {log_offset}]"
    "[; journal {journal_file}][ offset {journal_offset}]",
    "failed": "not acknowledged[: {note}]",
    "lost": "lost: it was only in memory when the bookie died",
}
"""Where one bookie's copy of an entry lies, by the copy's state."""

_FIELD = re.compile(r"\{(\w+)\}")
_OPTIONAL = re.compile(r"\[([^][]*)\]")


def fill(template: str, values: Mapping[str, object]) -> str:
    """Put the values into a template, leaving out the optional parts that do not apply."""

    def optional(part: re.Match[str]) -> str:
        absent = any(values[name] in ("", -1) for name in _FIELD.findall(part[1]))
        return "" if absent else part[1]

    text = _OPTIONAL.sub(optional, template)
    return _FIELD.sub(lambda field: str(values[field[1]]), text)


def describe(event: Event) -> str:
    """What happened, as one sentence without a full stop."""
    return fill(SENTENCES[event.kind], event._asdict())
