"""The lines of the contracts of all steps.

Each step lists its lines, and the code that detects a violation of a line quotes it.
"""

# Step 1: append to a quorum

WRITE_SET = (
    "An entry is sent once to each of the Qw bookies of its write set, and to no others: the write"
    " set is the bookies at the indexes (entry id + i) mod E, for i = 0 to Qw - 1, of the ensemble."
)
AFTER_QA = (
    "An entry is confirmed only after Qa bookies of its write set have acknowledged it. An error is"
    " not an acknowledgement."
)
IN_ORDER = "Entries are confirmed in the order of their ids, without a gap."
RETURNS_ID = (
    "Entries get their ids in the order of the calls of `add`, which stores exactly its payload,"
    " and returns the id."
)
LENGTH = (
    "An entry's `length` is the total size of the ledger's payloads up to and including its own."
)
NOT_HELD_UP = (
    "An entry is confirmed as soon as Qa bookies have it and all earlier entries are confirmed: a"
    " bookie that is slow or down delays nothing."
)

# Step 2: how far a ledger can be read

ANNOUNCES = "An entry carries the LastAddConfirmed of the moment at which it gets its id."
IS_CONFIRMED = (
    "A reader's LastAddConfirmed has been confirmed, so every later reader can read it, too."
)
LEARNS_ANY = (
    "A reader learns at least the LastAddConfirmed carried by any entry that was confirmed before"
    " it asked, no matter which bookies are slow, behind or down."
)
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
LEARNS = "A reader learns LastAddConfirmed as long as enough bookies respond."
TOO_FEW = (
    "If the bookies that did not respond could acknowledge an entry alone, the reader raises"
    " `BKReadException`."
)

# Step 3: read an entry

IN_WRITE_SET = (
    "An entry is requested only from the bookies of its write set, in the ensemble of its segment."
)
ONE_BY_ONE = "The bookies are asked one after the other until one returns the entry."
ANY_COPY = "A copy that cannot be read does not matter as long as another copy can be read."
PROOF = (
    "`PROVES_ABSENCE` is raised only if all bookies of the write set deny having the entry. A"
    " bookie that is silent or down, or cannot read its copy, proves nothing, so its error is"
    " raised."
)
ALL_DENY = "If all bookies of the write set deny having the entry, `PROVES_ABSENCE` is raised."

# Step 4: replace a failed bookie

BEGINS = (
    "A new segment starts at LastAddConfirmed + 1: every unconfirmed entry belongs to the new"
    " ensemble, even if some bookies already have it."
)
REPLACES = (
    "The metadata keeps all earlier segments, but no two segments start at the same entry: if the"
    " last one starts at LastAddConfirmed + 1, the new one replaces it."
)
WAITS = (
    "The metadata names the new ensemble before any entry is confirmed on it: nothing is confirmed"
    " while a change is being stored."
)
KEEPS = "A bookie that works keeps its index in the ensemble."
OUTSIDE = "The new bookie is not in the ensemble, and has not failed this writer before."
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
FAILS = (
    "If fewer than Qa bookies of an entry's write set are left, the writer fails all of its adds,"
    " including later ones, with `BKNotEnoughBookiesException`. A bookie is left unless it failed"
    " this entry's add; you may also exclude a bookie that failed another entry's add."
)
OTHERS_CHANGE = (
    "If another client has changed the metadata, the writer stores no new ensemble, and fails all"
    " of its adds, including later ones."
)

# Step 5: close the ledger, and handle being fenced

ENDS_AT = (
    "A ledger that its writer closes ends at the writer's LastAddConfirmed, and nothing is"
    " confirmed after that entry."
)
CLOSED_LENGTH = (
    "The length of a closed ledger is the total size of the payloads up to its last entry."
)
PENDING_FAIL = (
    "When a writer ends, each add that is not confirmed fails at once, and so does each later add,"
    " so that no caller waits for ever."
)
CONFLICT = (
    "Metadata is written only on the version that was read. After a conflict, `close` reads it"
    " again and closes the ledger, unless another client has closed it."
)
OTHER_END = (
    "A ledger that another client has closed stays as it is. If it ends at another entry, `close`"
    " raises `BKMetadataVersionException`; otherwise `close` returns."
)
FENCED = (
    "`BKLedgerFencedException` does not mean that the bookie failed, but that another client takes"
    " over: the writer fails all of its adds with this error, and does not change the ensemble."
)

# Step 6: recover a ledger whose writer is gone

MARKED = (
    "The metadata is IN_RECOVERY before any bookie is asked, so the writer can no longer change the"
    " ensemble."
)
RETRIES = (
    "Metadata is written only on the version that was read. After a conflict, `recover` reads it"
    " again and continues, unless another client has closed the ledger."
)
FENCES = "Bookies are fenced until the others are too few to acknowledge an add."
FENCING_READS = (
    "Each read that looks for the end also fences: a bookie that has denied an entry never accepts"
    " it afterwards."
)
PROVEN = (
    "An entry that may have been confirmed is found, or the recovery fails and the ledger stays"
    " IN_RECOVERY. A ledger ends before an entry only if Qw - Qa + 1 bookies of its write set deny"
    " having it."
)
DECIDES = "If enough bookies respond to determine the last entry, the recovery closes the ledger."
LOWER_BOUND = (
    "Recovery starts after the highest LastAddConfirmed that a bookie reports, and not before the"
    " start of the last segment minus 1, no matter what the bookies of that segment know."
)
WRITTEN_BACK = (
    "Before the ledger is closed, each entry found after LastAddConfirmed is written back, with its"
    " payload and length and with the recovery flag, to Qa bookies of its write set."
)
CARRIES = (
    "Entries that are written back carry the LastAddConfirmed with which the recovery began,"
    " because another recovery may still drop them."
)
FIRST_CLOSES = (
    "The first client that closes the ledger decides where it ends. `recover` returns the metadata"
    " that this client stored."
)

# Step 7: a program on a live cluster

CREATES = (
    "A new ledger needs as many writable bookies as its ensemble has. If there are fewer,"
    " `create_ledger` raises `BKNotEnoughBookiesException`."
)
STORES = (
    "`create_ledger` stores metadata with the given sizes and an ensemble of different bookies, and"
    " then returns the ledger's writer."
)
WINDOW = (
    "`append_all` adds each payload as soon as it is available and fewer than `window` adds are"
    " unconfirmed."
)
REPORTS = (
    "`append_all` reports each entry once, as soon as it is confirmed, in the order of the ids."
)
CLOSES = "`append_all` closes the ledger once all payloads are confirmed."
FAILS_AT_ONCE = (
    "If an add fails, `append_all` raises its error at once, even while it waits for the next"
    " payload, and leaves the ledger open."
)
TAKES_OVER = (
    "`take_over` recovers the ledger, whatever its state, and returns all of its entries in order."
)
SUCCEEDS = "If enough bookies are writable, the program ends without an error."
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
