# %% [markdown]
# # 03 · How does a bookie find one entry among millions?
#
# A bookie stores thousands of ledgers at once. If each ledger had its own file, the disk would have to seek to a different file for every write. So a bookie writes all ledgers to **one** file, the entry log. In this lesson, you follow entries from memory into that file. Then you find one of them again, first in an index and then in the log.
#
# **At the end you can** say in which order an entry log stores entries, split a location into file and offset, compute where the index stores the location, and tell a tailing read from a catch-up read. You will also have added a memtable, an entry log and an index to your own bookie.
#
# **Takes** about 45 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson 02. Allow about 150 more minutes for writing the three parts, now or at home.
#
# | term | meaning |
# | --- | --- |
# | **memtable** | the newest entries, sorted, in memory |
# | **flush** | writing the whole memtable to disk |
# | **entry log** | a file that contains the entries of all ledgers, one after another |
# | **index** | one file per ledger that maps each entry id to the entry's location in the entry logs |
#
# > **The rule.** The location of entry *e* is stored at byte *1024 + 8 e* of its ledger's index. The bookie writes the location only after the entry itself is on disk, so **an index never points to a missing entry.**

# %% tags=["parameters"]
ledger_count = 2
entries_per_ledger = 4
page_size = 512

# %% [markdown]
# ## 1 · Two ledgers, interleaved
#
# You run a bookie on a simulated disk. Its clients write to several ledgers at the same time, so entries from different ledgers arrive interleaved. `8/0` means entry 0 of ledger 8.

# %%
import struct

from labkit.course.lessons import (
    BookieInside,
    NoEntryException,
    NoLedgerException,
    OneBookie,
    StorageDamagedException,
    XRay,
    compare,
    entry_log_bytes,
    entry_log_order,
    entry_log_syncs,
    flush_two_ledgers,
    flushes,
    index_path,
    index_writes,
    journal_order,
    jumps,
    parameters,
    predict,
    served_from,
)
from labkit.course.workshop import Disk, File, check, hint, overview, step

parameters("03", globals())

# %%
bookie = OneBookie()
ledgers = range(7, 7 + ledger_count)
for entry_id in range(entries_per_ledger):
    bookie.add(*((ledger_id, entry_id) for ledger_id in reversed(ledgers)))
    bookie.commit()
BookieInside(bookie.trace, page_size=page_size)

# %% [markdown]
# Press ▶, or step with `|▶`. The bookie puts each entry into the **memtable** and appends it to the **journal**. The journal stores entries in *order of arrival*. One sync makes a group durable, and padding follows the group ([lesson 02](02-journal.ipynb)). The memtable is sorted. The ledger disk is still empty.
#
# **Predict.** The cell after the next one flushes the memtable. In which order will the entry log store the entries? Give the first three, for example `["8/0", "7/0", "8/1"]`.

# %%
# solution
in_order = [f"{ledger_id}/{n}" for ledger_id in ledgers for n in range(entries_per_ledger)]
my_order = in_order[:3]
# learner
# my_order = None  # ["...", "...", "..."]
# end
predict("order in the entry log", my_order)

# %%
bookie.flush()
BookieInside(bookie.trace, page_size=page_size)

# %%
compare("order in the entry log", entry_log_order(bookie)[:3])

# %% [markdown]
# Step backwards through the flush (`◀|`). First the bookie writes the entries to `0.log` and syncs it. Then it writes their locations to the index and syncs that as well. After that, it removes the entries from the memtable. Finally **LastLogMark** advances, and the records before it turn pale, because replay no longer needs them ([lesson 04](04-last-log-mark.ipynb)).
#
# ## 2 · Why sorted?
#
# Count how often a reader of one ledger has to jump because the next entry does not directly follow the previous one:

# %%
print(f"reading ledger 7: {jumps(journal_order(bookie), 7)} jumps in the journal,")
print(f"                  {jumps(entry_log_order(bookie), 7)} jumps in the entry log")

# %% [markdown]
# Writes to the journal must be fast, so it keeps entries in order of arrival. The bookie reads the journal only when it restarts. It writes the entry log later, so it has time to sort the entries for readers.
#
# ### Your turn: the memtable
#
# You continue with the file `mybookie.py` from lesson 02. If you do not have that file, start one here. labkit provides the parts that you have not written.

# %%
step("bookie", 3)

# %%
# part bookie Memtable

# %% tags=["exercise"]
check("bookie", 3, parts=[Memtable], seeds=6)

# %% [markdown]
# Stuck? Run `hint("bookie", 3)` in a new cell for the first of three hints.
#
# ### One log for all ledgers, or one log per ledger?
#
# With `entryLogPerLedgerEnabled`, a bookie does exactly what the introduction warns about: it gives each ledger its own log. Here you flush two ledgers with two entries each. The picture shows each log, starting with its first entry.

# %%
entry_log_per_ledger = False  # yours to change
XRay(entry_log_bytes(flush_two_ledgers(entry_log_per_ledger)))

# %%
for per_ledger in (False, True):
    other = flush_two_ledgers(per_ledger)
    counts = f"{len(entry_log_bytes(other))} logs, {entry_log_syncs(other)} syncs"
    print(f"one log per ledger {per_ledger!s:<5}: {counts}")

# %% [markdown]
# With one log per ledger, a bookie can delete the log together with its ledger, without compaction ([lesson 10](10-garbage.ipynb)). In exchange, every ledger that is being written needs an open file, and a sync at each flush.
#
# ## 3 · A location is one number
#
# Here you see the same entry in every file that stores it. Point at the bytes. Each field has the same colour in every file.

# %%
XRay(bookie.places(7, 1))

# %% [markdown]
# The journal and the entry log contain the same bytes: a length, followed by the entry as its client packed it. The index contains only the entry's 8-byte **location**. The upper half is the id of the entry log. The lower half is the offset of the entry itself, *after* its length word. For example, `0x0000000500000404` means offset 1028 in log 5. The value 0 means that this bookie does not have the entry.
#
# ### Your turn: the entry log
#
# Your entry log stores entries, returns their locations, and reads them back.

# %%
step("bookie", 4)

# %%
# part bookie location_of


# part bookie EntryLog


# part bookie read_entry

# %% tags=["exercise"]
check("bookie", 4, parts=[location_of, EntryLog, read_entry], seeds=6)

# %% [markdown]
# ## 4 · Index, then log
#
# Now find the entry by hand, using only the disk. Start with the index. The location of entry *e* is at byte 1024 + 8 *e*, so you do not have to search for it.

# %%
disk = bookie.machine.ledgers[0]
location = int.from_bytes(disk.open(index_path(7)).read(1024 + 8 * 1, 8), "big")
print(f"location {location:#018x}: log {location >> 32}, offset {location & 0xFFFFFFFF}")

# %% [markdown]
# Then read the entry log at that offset. The first 16 bytes of the entry are its ids. The bookie compares them with the requested ids before it returns the entry.

# %%
log = disk.open(f"current/{location >> 32:x}.log")
offset = location & 0xFFFFFFFF
size = int.from_bytes(log.read(offset - 4, 4), "big")
entry = log.read(offset, size)
print("ledger", int.from_bytes(entry[:8], "big"), "entry", int.from_bytes(entry[8:16], "big"))
print("same bytes as a read from the bookie:", entry == bookie.read(7, 1))

# %% [markdown]
# A lookup takes one read of the index and two reads of the log, no matter whether the bookie stores eight entries or eight hundred million.
#
# The index is read and written in **pages**. A page is simply a sequence of these 8-byte slots. So you can restart the bookie with a different page size, and every location is still at the same byte.
#
# ### Your turn: the index
#
# This is the longest part of your bookie. Work through the tests in order: first keep the locations in memory, then write `flush`, then `load`. The contract says which file and directory names a crash could lose.

# %%
step("bookie", 5)

# %%
# part bookie Index

# %% tags=["exercise"]
check("bookie", 5, parts=[Index], seeds=6)

# %% [markdown]
# ### Changed pages wait in memory
#
# A flush changes index pages of every ledger that has new entries. The **index cache** keeps the changed pages in memory until the flush ends, or until there are more than `pageLimit` of them.

# %% [markdown]
# **Predict.** You add one entry to each of four ledgers, which changes four pages. If `pageLimit` is 2, how many times does the bookie write the index while it flushes the memtable?

# %%
# solution
predict("times that the index is written", 2)
# learner
# predict("times that the index is written", None)
# end

# %%
page_limit = 2  # yours to change: 1, 3, -1 (no limit)
for number, ledgers_written in enumerate(index_writes(page_limit), 1):
    print(f"write {number}: pages of ledgers {', '.join(ledgers_written)}")
compare("times that the index is written", len(index_writes(page_limit)))

# %% [markdown]
# The third page exceeds the limit, so the bookie writes and syncs all three. It writes the fourth page at the end of the flush.
#
# ## 5 · Tailing and catching up
#
# A consumer that keeps up reads entries that have just been written. A consumer that was offline reads old entries. Add one more entry to ledger 7, and then read three of its entries: the newest, the one before it, and the oldest.
#
# **Predict.** How many of these three reads touch the disk?

# %%
# solution
my_count = 2
# learner
# my_count = None
# end
predict("reads that touch the disk", my_count)

# %%
newest = entries_per_ledger
bookie.add((7, newest))
bookie.commit()
bookie.read(7, newest)
BookieInside(bookie.trace, page_size=page_size)

# %% [markdown]
# That was a **tailing read**: the bookie found the entry in the memtable. Now read the entry before it, and the oldest one:

# %%
bookie.read(7, newest - 1)
bookie.read(7, 0)
BookieInside(bookie.trace, page_size=page_size)

# %%
print("served from:", *served_from(bookie)[-3:], sep="  ")
compare("reads that touch the disk", served_from(bookie)[-3:].count("entry log"))

# %% [markdown]
# The last two were **catch-up reads**: first the index, then the entry log. The entry before the newest one was added only a moment earlier, but the flush had already removed it from the memtable. A read touches the disk only if the entry has been flushed. Serving recent entries from memory is the memtable's second purpose, besides sorting.
#
# ## 6 · When does a bookie flush?
#
# So far, you have called `flush()` yourself. Now let real bookies in the simulated world decide when to flush. A writer adds 60 entries to three bookies, one every 10 ms, and the cell prints the flushes of one bookie.

# %%
for interval_ms in (100, 250):  # yours to change
    found = [f"{at_ms} ms: {count}" for at_ms, count in flushes(interval_ms)]
    print(f"interval {interval_ms} ms  entries flushed after", *found, sep="  ")

# %% [markdown]
# The memtable was never full. Each flush started because `flushInterval` had elapsed. The bookie flushes the entry log and the index at the same time, so changed index pages wait no longer than this interval.
#
# **Predict.** Each entry takes 68 bytes. The memtable is full as soon as it holds at least 2000 bytes (`skipListSizeLimit`), and the interval is ten seconds. How many entries does each flush write to disk?

# %%
# solution
predict("entries in a full memtable", 30)
# learner
# predict("entries in a full memtable", None)
# end

# %%
memtable_bytes = 2000  # yours to change
compare("entries in a full memtable", flushes(10_000, memtable_bytes)[0][1])

# %% [markdown]
# Adds do not wait for the flush. The bookie sets the full memtable aside and puts new entries into a new one.
#
# ## 7 · "No such entry" and "cannot read" are different responses
#
# A lookup can fail in three ways: the slot in the index contains 0, the ledger has no index, or the location points to the wrong bytes. A client must be able to distinguish the third case from the first two, because only the first two mean that the bookie does not have the entry.


# %%
def ask(ledger_id, entry_id):
    try:
        bookie.store.read_entry(ledger_id, entry_id)
    except (NoEntryException, NoLedgerException, StorageDamagedException) as error:
        print(f"{type(error).__name__}: {error}")


# %%
ask(7, 10_000)  # a slot that was never written
ask(6, 0)  # a ledger that has no index
log.write(offset, bytes(8))  # damage entry 1 of ledger 7 in the entry log
bookie.restart()  # its read-ahead buffer is lost with its memory
ask(7, 1)

# %% [markdown]
# Suppose the bookie had responded to the last read with "no such entry". A client that recovers the ledger could conclude that the ledger ends before entry 1, and cut off acknowledged entries. BookKeeper once had this bug (#2908).
#
# ## Your bookie so far
#
# The checks have already run each of your parts in a bookie that crashes before every disk operation.

# %%
overview("bookie")

# %% [markdown]
# ## In the real system
#
# | here | in BookKeeper |
# | --- | --- |
# | `system/storage/memtable.py` | `EntryMemTable`; full at `skipListSizeLimit`, 64 MiB |
# | `system/storage/entry_log.py` | `DefaultEntryLogger`; a new file at `logSizeLimit`, 1 GiB; one file per ledger with `entryLogPerLedgerEnabled` |
# | `system/storage/index/ledger_index.py` | `LedgerCacheImpl`, `IndexPersistenceMgr`; `pageSize` 8192, `pageLimit`, `openFileLimit` |
# | all three combined | `SortedLedgerStorage`, BookKeeper's default. Pulsar uses `DbLedgerStorage`, which has the same entry logs but keeps the index in RocksDB |
#
# BookKeeper writes the index *before* it syncs the entry log, so after a crash the index may point to missing entries until replay repairs it. labkit syncs the entry log first.
#
# ## Questions
#
# <details><summary>Pages have 8192 bytes. Where is the location of entry 100,000 stored?</summary>At byte 1024 + 800,000 = 801,024 of the index file, which is byte 5376 of page 97 (800,000 // 8192).</details>
# <details><summary>Why can the location 0 mean "not here"?</summary>Offset 0 of log 0 is part of the log's header. No entry can start before byte 1028.</details>
# <details><summary>A client writes only entry 5,000,000 of a ledger to this bookie. How long is the index file?</summary>The location is at byte 1024 + 40,000,000, so the file appears to be 40 MB long. But the file system stores only the pages that have been written. The rest is a hole. It reads as zeros, and zero means "no such entry".</details>
# <details><summary>One flush writes a ledger's entries contiguously. What happens after several flushes?</summary>Each flush writes another contiguous run of entries for each ledger. With a memtable of 64 MiB, the runs are long enough for mostly sequential reads.</details>
# <details><summary>A ledger is deleted. When is its space in the entry log freed?</summary>When all other ledgers in that log have been deleted, too, or when compaction has copied the remaining entries to another log. See lesson 10.</details>
#
# **Next:** [04 LastLogMark](04-last-log-mark.ipynb). The power fails after the journal write but before the entry log write. Where does journal replay start?
