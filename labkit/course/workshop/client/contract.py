"""The lines of the contracts that more than one module quotes, and the contract of step 7.

The steps list these lines, and a module that detects a violation of a line quotes it.
"""

WRITE_SET = (
    "An entry is sent to the Qw bookies of its write set and to no others: those at the indexes"
    " (entry id + i) mod E, for i = 0 to Qw - 1, of the ensemble."
)
AFTER_QA = "An entry is confirmed only after Qa bookies of its write set have acknowledged it."
IN_ORDER = "Entries are confirmed in the order of their ids, without a gap."
NOT_HELD_UP = (
    "An entry is confirmed as soon as Qa bookies have it and all earlier entries are confirmed: a"
    " bookie that is slow or down delays nothing."
)
RETURNS_ID = (
    "Entries get their ids in the order of the calls of `add`, which stores exactly its payload,"
    " and returns the id."
)

ANNOUNCES = (
    "An entry carries the LastAddConfirmed of the moment at which it gets its id, and the total"
    " size of all payloads up to its own."
)

IS_CONFIRMED = (
    "A reader's LastAddConfirmed has been confirmed, so every later reader can read it, too."
)
LEARNS_ANY = (
    "A reader learns at least the LastAddConfirmed carried by any entry that was confirmed before"
    " it asked, no matter which bookies are slow, behind or down."
)
LEARNS = "A reader learns LastAddConfirmed as long as enough bookies respond."
NEVER_BACK = (
    "The LastAddConfirmed that a reader returns never decreases, even if the bookies that respond"
    " now know less than those before."
)
LAST_ENSEMBLE = (
    "A reader asks the bookies of the last segment's ensemble: entries that are not confirmed yet"
    " are on no others."
)
CURRENT = (
    "Each call reads the metadata again, because the ensemble may have changed, or the ledger may"
    " have been closed. A closed ledger ends at the last entry that its metadata names."
)

BEGINS = (
    "A new segment starts at LastAddConfirmed + 1: every unconfirmed entry belongs to the new"
    " ensemble, even if some bookies already have it."
)
REPLACES = (
    "No two segments start at the same entry: if the last one starts at LastAddConfirmed + 1, the"
    " new one replaces it."
)
WAITS = (
    "The metadata names the new ensemble before any entry is confirmed on it: nothing is confirmed"
    " while a change is being stored."
)
RESENT = (
    "The new bookie gets every unconfirmed entry of its write sets, exactly as it was packed. No"
    " other bookie gets an entry again."
)
COUNTS = (
    "An acknowledgement counts only if its bookie is still in the ensemble: what the predecessor"
    " acknowledged no longer counts."
)
CONTINUES = (
    "A failed bookie is replaced if another one is writable. If none is, the writer continues as"
    " long as Qa bookies can acknowledge each entry."
)
KEEPS = "A bookie that works keeps its index in the ensemble."
OUTSIDE = "The new bookie is not in the ensemble, and has not failed this writer before."

ENDS_AT = (
    "A ledger that its writer closes ends at the writer's LastAddConfirmed, and nothing is"
    " confirmed after that entry."
)
PENDING_FAIL = (
    "When a writer ends, each add that is not confirmed fails, so that no caller waits for ever."
)
CONFLICT = (
    "Metadata is written only on the version that was read. After a conflict, `close` reads it"
    " again and closes the ledger, unless another client has closed it."
)
OTHER_END = (
    "A ledger that another client has closed stays as it is. If it ends at another entry, `close`"
    " raises `BKMetadataVersionException`."
)
FENCED = (
    "`BKLedgerFencedException` does not mean that the bookie failed, but that another client takes"
    " over: the writer fails all of its adds with this error, and does not change the ensemble."
)

MARKED = (
    "The metadata is IN_RECOVERY before any bookie is asked, so the writer can no longer change the"
    " ensemble."
)
FENCES = "Bookies are fenced until the others are too few to acknowledge an add."
FENCING_READS = (
    "Each read that looks for the end also fences: a bookie that has denied an entry never accepts"
    " it afterwards."
)
DECIDES = "If enough bookies respond to determine the last entry, the recovery closes the ledger."
LOWER_BOUND = (
    "Recovery starts after the highest LastAddConfirmed that a bookie reports, and not before the"
    " start of the last segment minus 1, no matter what the bookies of that segment know."
)
PROVEN = (
    "An entry that may have been confirmed is found, or the recovery fails and the ledger stays"
    " IN_RECOVERY. A ledger ends before an entry only if Qw - Qa + 1 bookies of its write set deny"
    " having it."
)
WRITTEN_BACK = (
    "Before the ledger is closed, each entry found after LastAddConfirmed is written back, with the"
    " recovery flag, to Qa bookies of its write set."
)
CARRIES = (
    "Entries that are written back carry the LastAddConfirmed with which the recovery began,"
    " because another recovery may still drop them."
)

SURVIVES = (
    "Every entry that your program reported as confirmed is in the ledger, no matter which client"
    " closes it and which bookie is killed."
)
TAKEN_OVER = (
    "A program whose ledger was taken over confirms nothing that is not in the ledger, and exits"
    " with an error."
)
READABLE = (
    "The metadata in ZooKeeper names the bookies that have the entries, and the last entry, so"
    " labkit's client and shell and BookKeeper's own can read the ledger."
)
CREATES = (
    "A new ledger needs as many writable bookies as its ensemble has. If there are fewer,"
    " `create_ledger` raises `BKNotEnoughBookiesException`."
)
