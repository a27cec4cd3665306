# %% [markdown]
# # 02 · What makes an entry durable?
#
# A bookie acknowledges thousands of adds per second, and a power failure must not lose a single one of them. To keep that promise, the bookie needs only one kind of file: the **journal**, its write-ahead log.
#
# **At the end you can** read a journal byte by byte, explain why a bookie pads the blocks of its journal, weigh the costs and benefits of syncing many adds at once, and find the end of a journal whose last record was torn by a crash. You will also have written a journal, the first part of a bookie that you complete in [lesson 16](16-build-a-bookie.ipynb).
#
# **Takes** about 60 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson 01. Allow about 80 more minutes for writing your journal, now or at home.
#
# > **The rule: ack after sync.** A bookie acknowledges an add only after it has synced the group of journal records that contains this add. When the bookie starts, it reads the journal (**replay**) and recovers every add that it has acknowledged.
#
# This lesson is plain Python, too. The disks are simulated so that they can fail on demand, but the journal code is real.

# %% tags=["parameters"]
payload_size = 20
group_size = 3

# %%
import struct

from labkit.course.lessons import (
    DEFECTS,
    MIB,
    Add,
    BKDigestMatchException,
    Commit,
    CrashMapView,
    OneBookie,
    XRay,
    add_in_groups,
    compare,
    crash_map,
    end_of_journal,
    journal_bytes,
    journal_fields,
    journal_files,
    padding,
    parameters,
    predict,
    torn,
)
from labkit.course.workshop import Disk, check, hint, overview, step, your_bookie

parameters("02", globals())

# %% [markdown]
# ## 1 · The picture
#
# You start a new bookie, add one entry and sync the journal.

# %%
bookie = OneBookie()
bookie.add((5, 0), payload_size=payload_size)
bookie.commit()
XRay(journal_bytes(bookie))

# %% [markdown]
# The journal consists of a 512-byte header and a series of **records**. Each record is a length word and a body, and every body starts with the ledger id and the entry id. The body of an add is the entry, exactly as the client packed it ([lesson 01](01-entry.ipynb)).
#
# You did not add the first record. Its negative entry id marks it as a **special record**:
#
# | entry id | record | what replay does with it |
# | --- | --- | --- |
# | 0 and up | an entry | restores it in memory (in the **memtable**, [lesson 03](03-memtable-entry-log-index.ipynb)) |
# | -0x1000 (-4096) | ledger key | creates the ledger with this master key |
# | -0x2000 (-8192) | fence | rejects later adds to the ledger |
# | -0x8000 (-32768) | explicit LAC | restores the writer's LastAddConfirmed |
#
# The **master key** is derived from the ledger's password, and only clients with this key can add entries. A **fence** shuts out the old writer when another client takes over the ledger ([lesson 08](08-fencing-recovery.ipynb)). **LastAddConfirmed** (LAC) is the last entry that has been confirmed to the writer. An idle writer can announce its LAC in a message of its own, the **explicit LAC** ([lesson 06](06-lac.ipynb)).
#
# Before the next write, the bookie fills the rest of the last 512-byte block with **padding**, so that the next record starts in a new block.
#
# **Predict.** The picture ends at the offset where the next record will start. What is this offset?

# %%
# solution
end = 512 + 44 + 40 + payload_size
left = -end % 512
predict("the next record begins at", end + left + (512 if 0 < left < 8 else 0))
# learner
# predict("the next record begins at", None)
# end

# %%
compare("the next record begins at", end_of_journal(bookie))

# %% [markdown]
# ## 2 · One sync for many
#
# A sync takes as long for one record as for a hundred, so a bookie batches records. All waiting records become one **group**. The bookie writes the group with a single write, syncs it once, and then acknowledges all of its adds. Count the disk operations:

# %%
for size in sorted({1, group_size, 12}):
    count = add_in_groups(12, size, payload_size)
    line = f"{count.syncs:>2} syncs, {count.bytes_written:>5} bytes written"
    print(f"12 adds in groups of {size:>2}: {line}")

# %% [markdown]
# With small groups, the bookie not only syncs more often but also writes more bytes. The extra bytes are padding: each group is padded to a multiple of `journalAlignmentSize` (512). The bookie never rewrites a block after syncing it, so a torn write can damage only data that has not been acknowledged.
#
# Padding looks like a record, except that it has the mask -0x100 instead of a length. The mask is followed by the number of zeros and then by the zeros themselves. The mask and the number are 4 bytes each, big-endian, like a length word.
#
# **Predict.** 5 bytes are left in the block. How long, in bytes, is the padding?

# %%
# solution
predict("padding where 5 bytes are left", 5 + 512)
# learner
# predict("padding where 5 bytes are left", None)
# end

# %%
compare("padding where 5 bytes are left", len(padding(1024 - 5, 512)))

# %% [markdown]
# Why doesn't the bookie simply pad with zeros? Because zeros mark the *end* of a journal, so replay would miss every acknowledged entry after them.
#
# ### Your turn: the journal
#
# In this lesson and the next two, you write the storage of a bookie, one part at a time. Your parts are saved in one file, `mybookie.py`, in the folder of this notebook. This is the **contract** of the first part:

# %%
step("bookie", 1)

# %% [markdown]
# Your code gets a simulated `disk`. Four calls are enough for this part:
#
# - `file = disk.create("current/a.txn")` creates an empty file.
# - `file.write(offset, data)` writes bytes to it.
# - `file.sync()` makes everything written to the file durable.
# - `disk.sync_folder("current")` makes the *names* of the files in the folder durable.
#
# Write your code in the next cell. The check saves what the cell defines in `mybookie.py`. It first tests your journal alone. Then your journal replaces the journal of a real bookie. The check crashes and restarts this bookie before every disk operation. Start with the header and `append`, because the first test needs nothing else.


# %%
# part bookie Journal

# %% tags=["exercise"]
check("bookie", 1, parts=[Journal], seeds=6)

# %% [markdown]
# *Stuck? Run `hint("bookie", 1)` in a new cell for the first of three hints. Every exercise in this course has hints.*
#
# ## 3 · Where does a journal end?
#
# A bookie preallocates space for each journal file, `journalPreAllocSizeMB` at a time, and fills it with zeros. That way, most syncs do not have to make a new file size durable. The file is never truncated, so its size does not tell you where the records end. Instead, a **length word of zero** marks the end.

# %%
bookie.add((5, 1), payload_size=payload_size)
bookie.fence(5)
bookie.commit()
print(journal_fields(bookie, "entry id", "mask", "preallocated"))

# %% [markdown]
# A crash in the middle of a write leaves part of a record: a **torn tail**. The torn record was never synced, so it was never acknowledged. Replay applies all complete records before it. If the file ends in the middle of a record, replay stops without an error. In a preallocated file, zeros follow the torn record. Section 4 shows what happens in that case.
#
# ### Your turn: read records until the torn tail
#
# The second part of your bookie reads what the first part has written.

# %%
step("bookie", 2)

# %%
# part bookie records

# %% tags=["exercise"]
check("bookie", 2, parts=[records])

# %% [markdown]
# ## 4 · Every possible crash
#
# The script below adds four entries in two groups. It runs in a bookie that uses the parts you have written so far; labkit provides the rest. The picture is a **crash map**. Each row is a disk operation of the bookie, and the machine crashes just before that operation. Each column is one possible fate of the unsynced data: all of it is *lost* (the power failed), all of it is *kept* (only the process was killed), the last write is *torn* in the middle, and so on. For each cell, labkit restarts the bookie and looks up every acknowledged entry. Choose a cell.

# %%
script = [Add(5, 0), Add(5, 1), Commit(), Add(5, 2), Add(5, 3), Commit()]
CrashMapView(crash_map(script, store_factory=your_bookie()))

# %% [markdown]
# ### Break something: acknowledge before the sync
#
# **Predict.** You run the same script, but the bookie acknowledges adds while the sync is still in progress. When are entries lost: when the process is killed, when the power fails, or in both cases?

# %%
# solution
predict("lost, if acknowledged before the sync", "power")
# learner
# predict("lost, if acknowledged before the sync", None)  # "process", "power" or "both"
# end

# %%
hasty = crash_map(script, store_factory=DEFECTS["ack before sync"].store_factory)
compare("lost, if acknowledged before the sync", hasty.losing_crashes())

# %%
CrashMapView(hasty)

# %% [markdown]
# Killing the process loses nothing, because the operating system still has everything that the process wrote. A test that uses only `kill -9` never finds this bug.
#
# ### What replay cannot detect
#
# Journal records have no checksum. If a record is torn in a preallocated file, its length and its ids may be intact while its end consists of zeros. Replay accepts such a record. The add was never acknowledged, so this breaks no promise, and a client that reads the entry detects the damage because the digest does not match.

# %%
bookie = OneBookie()
bookie.add((5, 0), payload_size=2000)
bookie.crash_before_sync(torn)  # half of the write survives
bookie.restart()
try:
    bookie.payload(5, 0)
except BKDigestMatchException as error:
    print(error)

# %% [markdown]
# ## 5 · Which journals can be deleted?
#
# A journal is not one file but a sequence of files. When a journal file is full, the bookie starts a new one, named `<id in hex>.txn`, with the next higher id. This is called *rolling*. A file counts as full after the first group that ends beyond `journalMaxSizeMB` (default 2048). A group is never split across two files.
#
# **Predict.** You add ten entries of 256 KiB, syncing after each one, with `journalMaxSizeMB` set to 1. How many files does the bookie write?

# %%
# solution
predict("journals for ten entries", 3)
# learner
# predict("journals for ten entries", None)
# end

# %%
journal_max_size_mb = 1  # yours to change: 2, 4
big = OneBookie(journal_max_size_mb=journal_max_size_mb)
for entry_id in range(10):
    big.add((5, entry_id), payload_size=256 * 1024)
    big.commit()
for name, entries in journal_files(big).items():
    print(name, *entries)
compare("journals for ten entries", len(journal_files(big)))

# %% [markdown]
# Four entries of 256 KiB plus the header exceed 1 MiB, so each file is full after four entries. The first two files take up 2 MiB each on disk, because their contents are slightly longer than 1 MiB and space is preallocated in steps of 1 MiB.
#
# The bookie also creates a new journal file each time it starts. The journal would eventually fill the disk if the bookie could not delete old files. To decide which files to delete, it keeps a mark, **LastLogMark**. Everything before this mark has also been written to the files of [lesson 03](03-memtable-entry-log-index.ipynb), the entry log and the index, and synced there, so replay starts at the mark ([lesson 04](04-last-log-mark.ipynb)). After a flush, the bookie no longer needs the older files:

# %%
big.flush()
for name, entries in journal_files(big).items():
    print(name, *entries)
print("LastLogMark points into", big.store.marks[0].file_name)

# %% [markdown]
# In [lesson 04](04-last-log-mark.ipynb), you write the rule that decides which files can be deleted.
#
# ## Your bookie so far

# %%
overview("bookie")

# %% [markdown]
# ## 6 · In the real system
#
# | here | there |
# | --- | --- |
# | `system/storage/journal.py` | `bookie/Journal.java`, `bookie/JournalChannel.java` |
# | `padding` | `Journal.writePaddingBytes` |
# | `JournalScan` | `Journal.scanJournal` |
# | group commit | `journalMaxGroupWaitMSec` (2), `journalBufferedWritesThreshold` (512 KiB), `journalBufferedEntriesThreshold` |
# | `trim` | `Journal.checkpointComplete`, `journalMaxBackups` (5) |
# | every group is synced | `journalSyncData` (true); if it is false, an add is acknowledged as soon as it has been written |
#
# **A bug in version 4.17.** The thread that syncs journals (the *force-write thread*) collects all waiting groups but syncs only the file of the last group. When the journal rolls, the groups in the old file are therefore acknowledged before that file has been synced. Here is the same bug in labkit:

# %%
rolling = [Add(5, 0, MIB), Commit(), Add(5, 1), Commit()]
late = crash_map(rolling, store_factory=DEFECTS["wrong file synced at a roll"].store_factory)
print(late.smallest() or "safe")
print(crash_map(rolling).smallest() or "labkit's own journal: safe")

# %% [markdown]
# ## 7 · Questions
#
# <details><summary>A bookie puts an entry into its memtable before it appends the entry to the journal. Isn't a write-ahead log written <i>ahead</i>?</summary>It is written ahead of the acknowledgement and the entry log, and that is what matters. The memtable exists only in memory, so a crash destroys it, while everything synced to the journal survives. Lesson 04 explains why the entry must reach the memtable first.</details>
# <details><summary>A journal has zeros in the middle, followed by valid records. What does replay find?</summary>Only the records before the zeros. Replay treats the zeros as the end of the file and continues with the next file.</details>
# <details><summary>Why doesn't padding with 5 bytes left simply use those 5 bytes?</summary>The mask and the count take 8 bytes. If fewer than 8 bytes are left, the padding has to extend to the end of the next block.</details>
# <details><summary>A group consists of a single add with 1 byte of payload. How many bytes does the bookie write to its journal?</summary>512 bytes. The record takes 41, and padding fills the rest. In a group of a hundred, each add costs little more than its 41 bytes.</details>
# <details><summary>A sync fails with an error. Can the bookie retry?</summary>No. The operating system may have dropped the unwritten data from memory, and then a second sync would succeed without having written it. The bookie must stop acknowledging adds.</details>
#
# **Next:** [03 memtable, entry log, index](03-memtable-entry-log-index.ipynb) follows the entry from here.
