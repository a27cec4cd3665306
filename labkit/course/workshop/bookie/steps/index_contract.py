"""The contract of step 5, the index, which consists of the sentences that the trials of the step
quote.
"""

WHOLE = "After every crash, the file of a ledger has a complete header or does not exist."
DURABLE = "When `flush` returns, the file is durable, including the names of its parent folders."
SAME = (
    "After `flush`, the file contains the key, the fence, the explicit LAC and every location, and"
    " nothing else."
)
LOADED = "`load` reads everything that `flush` wrote."
FOUND = (
    "`location` returns the location that was set last, or 0 if none was set, and `locations`"
    " returns all of them in ascending order of their entry ids."
)
PAGES = (
    "After the header, the file consists of complete pages of 8192 bytes, and of no more pages than"
    " the locations need."
)
MEMORY = "Only `flush` writes to the disk: a new index and `set_location` write nothing."
NOTHING = "If nothing has changed since the last flush, a flush does nothing."
SYNCS_AFTER_LOAD = (
    "The first flush after `load` syncs the file and its folders, because the previous process may"
    " have been killed between a write and its sync."
)
CUT = "A slot truncated by the end of the file was never synced, so it counts as 0."
INVALID = (
    "`load` raises ValueError for an invalid header: one that is incomplete, has another magic or"
    " version, or contains a length that is negative or too large for the header."
)
