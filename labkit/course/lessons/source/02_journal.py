# %% [markdown]
# # 02 · What makes an entry durable?
#
# A bookie acknowledges thousands of adds a second, and a power cut must not take back a single one. That promise rests on one kind of file: the **journal**, the bookie's write-ahead log.
#
# **At the end you can** read a journal byte by byte, explain why padding is needed and write it, explain what one sync for many adds costs and gains, find the end of a journal that a crash has torn, and say which journals may be removed.
#
# **Takes** about 75 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 01.
#
# > **The rule: ack after sync.** An add is acknowledged when the sync of the group that holds its record has returned, and not before. **Replay**, the reading of the journal at a bookie's start, finds everything that was acknowledged.
#
# Plain Python again: the disks of this lesson are simulated so that they can fail; the journal code is the real one.

# %% tags=["parameters"]
payload_size = 20
group_size = 3

# %%
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.one_bookie import OneBookie
from labkit.system.model.byte_region import Piece
from labkit.system.storage.xray import journal_spans
from labkit.views.widgets import XRay
from labkit.views.widgets.crash_map import CrashMapView

parameters("02", globals())


# %%
def journal_piece(bookie, size):
    disk = bookie.machine.journals[0]
    spans = tuple(s for s in journal_spans(disk, 1) if s.offset + s.size <= size)
    data = disk.open("current/1.txn").read(0, size)
    return Piece("journal", "current/1.txn", 0, data, spans, len(data))


# %% [markdown]
# ## 1 · The picture
#
# A new bookie has stored one entry and synced its journal.

# %%
bookie = OneBookie()
bookie.add((5, 0), payload_size=payload_size)
bookie.commit()
XRay(journal_piece(bookie, bookie.store.journals[0].synced.offset))

# %% [markdown]
# A header of 512 bytes, then **records**: a length word, then a body. Every body begins with ledger id and entry id. The rest of an add's body is the entry as its client packed it ([lesson 01](01-entry.ipynb)).
#
# You did not write the first record. Its entry id is negative, which marks a **special record**:
#
# | entry id | record | what replay does with it |
# | --- | --- | --- |
# | 0 and up | an entry | puts it into the memtable |
# | -0x1000 | ledger key | creates the ledger with this master key |
# | -0x2000 | fence | refuses later adds to the ledger |
# | -0x8000 | explicit LAC | keeps the writer's LastAddConfirmed |
#
# The **master key** is made from the ledger's password: with another key no client may add. A **fence** keeps the old writer out when another client takes the ledger over ([lesson 08](08-fencing-recovery.ipynb)). **LastAddConfirmed** (LAC) is the last entry that is confirmed to the writer; a writer that has nothing to add can announce it in a separate record, the **explicit LAC** ([lesson 06](06-lac.ipynb)).
#
# **Predict.** The picture ends where the next record will begin. What is that offset in the file?

# %%
# solution
predict("the next record begins at", -(-(512 + 44 + 40 + payload_size) // 512) * 512)
# learner
# predict("the next record begins at", None)
# end

# %%
compare("the next record begins at", bookie.store.journals[0].synced.offset)

# %% [markdown]
# ## 2 · One sync for many
#
# A sync costs as much for one record as for a hundred, so a bookie collects: all waiting records become one **group**, which is written with one write, made durable with one sync, and then acknowledged together. Count the operations of the disk:


# %%
def operations_for(adds, in_groups_of):
    bookie = OneBookie()
    before = len(bookie.machine.journals[0].fuse.operations)
    for first in range(0, adds, in_groups_of):
        ids = range(first, min(first + in_groups_of, adds))
        bookie.add(*((5, i) for i in ids), payload_size=payload_size)
        bookie.commit()
    done = bookie.machine.journals[0].fuse.operations[before:]
    return sum(o.kind == "sync" for o in done), sum(o.size for o in done)


# %%
for size in sorted({1, group_size, 12}):
    syncs, written = operations_for(12, size)
    print(f"12 adds in groups of {size:>2}: {syncs:>2} syncs, {written:>5} bytes written")

# %% [markdown]
# Small groups do not only sync more often, they also write more bytes. The difference is **padding**: before each write the file is filled up to a multiple of `journalAlignmentSize` (512), so that the next group begins in a new block. A synced block is never written again, so a torn write can only damage data that was never acknowledged.
#
# Padding is a special kind of record: the mask -0x100 in place of a length, the number of zeros that follow, and the zeros. Mask and number take 4 bytes each, big-endian, as a length does.
#
# **Predict.** 5 bytes are left in the block. How many bytes long is the padding?

# %%
# solution
predict("padding where 5 bytes are left", 5 + 512)
# learner
# predict("padding where 5 bytes are left", None)
# end

# %%
from labkit.system.storage.journal import padding

compare("padding where 5 bytes are left", len(padding(1024 - 5, 512)))

# %% [markdown]
# ### Your turn: the padding rule
#
# Return the bytes to write at `offset` so that the file continues at a multiple of `alignment`. Your function replaces `labkit.system.storage.journal.padding`: a real journal is written with it, and a bookie is stopped at every operation of its disk and must replay what you padded.

# %%
import struct


def my_padding(offset, alignment):
    # solution
    left = -offset % alignment
    if left == 0:
        return b""
    zeros = left - 8 if left >= 8 else left - 8 + alignment
    return struct.pack(">ii", -0x100, zeros) + bytes(zeros)
    # learner
    # raise NotImplementedError  # -> bytes; none if the file is aligned already
    # end


# %% tags=["exercise"]
check("journal.padding", my_padding)

# %% [markdown]
# Why not just zeros? Because zeros already mean something else, as this answer shows:

# %% tags=["refused"]
check("journal.padding", lambda offset, alignment: bytes(-offset % alignment), must_pass=False)

# %% [markdown]
# Zeros *end* a journal, so an acknowledged entry after them is lost. The picture is the **crash map**. Each row is a moment at which the machine stops; each column is one way in which the data that was not synced comes out of that: all of it lost, all kept, the last write torn. Section 4 uses it.
#
# ## 3 · Where does a journal end?
#
# The file is created larger than its records need: with `journalPreAllocSizeMB` of zeros, so that a sync does not also have to make a new file size durable. It is never cut. So its size does not say where the records end; a **length word of zero** does.

# %%
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY

bookie.add((5, 1), payload_size=payload_size)
bookie.store.fence(5, MASTER_KEY)
bookie.commit()
for span in journal_spans(bookie.machine.journals[0], 1):
    if span.name in ("entry id", "mask", "preallocated"):
        print(f"{span.offset:>6}  {span.name:<14}{span.value:>6}  {span.meaning}")

# %% [markdown]
# And a crash in the middle of a write leaves half a record: a **torn tail**. It was never synced, so it was never acknowledged; replay applies every whole record before it. If the file ends there, replay stops without an error; in a preallocated file zeros follow, and section 4 shows what that does.
#
# ### Your turn: read records until the torn tail
#
# `data` is the file, `start` the offset of a record or of padding. Return a list of `(offset, body)`, one for each whole record, special records too; `offset` is where its length begins. Your function first reads a journal that is cut at every single byte; then a real bookie replays with it.


# %%
def my_records(data, start):
    # solution
    found, at = [], start
    while at + 4 <= len(data):
        (length,) = struct.unpack_from(">i", data, at)
        if length == -0x100:
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
        elif length == 0 or at + 4 + length > len(data):
            break
        else:
            found.append((at, data[at + 4 : at + 4 + length]))
            at += 4 + length
    return found
    # learner
    # raise NotImplementedError  # struct.unpack_from(">i", data, at) reads a length word
    # end


# %% tags=["exercise"]
check("journal.records", my_records)

# %% [markdown]
# ## 4 · Every possible crash
#
# Four adds in two groups. Each row is an operation that the bookie asks of its disk: the machine stops just before it. Each column says what happens to the data that was not synced by then: all of it is *lost* (the power was cut), all of it is *kept* (only the process was killed), the last write is *torn* in the middle, and so on. For each cell the bookie is restarted and every acknowledged entry is looked up. Choose a cell.

# %%
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.settings.bookie_script import Add, Commit

script = [Add(5, 0), Add(5, 1), Commit(), Add(5, 2), Add(5, 3), Commit()]
CrashMapView(crash_map(script))

# %% [markdown]
# ### Break something: acknowledge before the sync
#
# **Predict.** The same script, but the bookie answers while the sync is still under way. In which kind of crash is something lost: when the process is killed, when the power is cut, or both?

# %%
# solution
predict("lost, if acknowledged before the sync", "power")
# learner
# predict("lost, if acknowledged before the sync", None)  # "process", "power" or "both"
# end

# %%
from labkit.worlds.sim.variants.storage_variants import DEFECTS

hasty = crash_map(script, store_factory=DEFECTS["ack before sync"].store_factory)
kinds = {"process" if f.variant.name == "kept" else "power" for f in hasty.failures()}
found = "both" if len(kinds) == 2 else kinds.pop()
compare("lost, if acknowledged before the sync", found)

# %%
CrashMapView(hasty)

# %% [markdown]
# A killed process loses nothing: the operating system still has what the process wrote. A test that only does `kill -9` never finds this mistake.
#
# ### What no reader of the file can detect
#
# A record has no checksum. A record torn over preallocated zeros has its length, its ids, and zeros where its end should be: replay accepts it. It was never acknowledged, so no promise is broken; and a client that reads it finds out from the entry's digest.

# %%
from labkit.system.model.entry import decode_entry
from labkit.system.model.errors import BKDigestMatchException
from labkit.worlds.sim.machine.disk_operation import torn
from labkit.worlds.sim.settings.bookie_script import DIGEST

bookie = OneBookie()
bookie.add((5, 0), payload_size=2000)
crashes = []
journal = bookie.machine.journals[0]
journal.fuse.watch = lambda operation: crashes.append(bookie.machine.after_crash(torn))
bookie.commit()

# %%
bookie.machine = crashes[-1]  # the power failed just before the sync; half of the write is there
bookie.restart()
try:
    decode_entry(bookie.read(5, 0), DIGEST, 5, 0)
except BKDigestMatchException as error:
    print(error)

# %% [markdown]
# ## 5 · Which journals may go?
#
# A journal is not one file but a row of them. This lists the files of a bookie, and the entries in each:


# %%
from labkit.system.storage.journal import journal_ids


def show_journals(bookie):
    disk = bookie.machine.journals[0]
    for file_id in journal_ids(disk):
        ids = [int(s.value) for s in journal_spans(disk, file_id) if s.name == "entry id"]
        print(f"{file_id:x}.txn", *(f"5/{entry_id}" for entry_id in ids if entry_id >= 0))
    return len(journal_ids(disk))


# %% [markdown]
# **Predict.** Ten entries of 256 KiB, one after the other, each synced. The largest journal may have 1 MiB (`journalMaxSizeMB`; the default is 2048). How many files do they fill?

# %%
# solution
predict("journals for ten entries", 3)
# learner
# predict("journals for ten entries", None)
# end

# %%
from dataclasses import replace

from labkit.worlds.sim.settings.bookie_script import CONFIG

journal_max_size_mb = 1  # yours to change: 2, 4
rolling_config = replace(CONFIG, journal_max_size_mb=journal_max_size_mb)
big = OneBookie(rolling_config)
for entry_id in range(10):
    big.add((5, entry_id), payload_size=256 * 1024)
    big.commit()
compare("journals for ten entries", show_journals(big))

# %% [markdown]
# A journal that is full is followed by the next: `<id in hex>.txn`, id plus one. This is called *rolling*. Each start of the bookie also begins a new journal. They would fill the disk without the **LastLogMark**: everything before it is in the entry log and the index, and synced. Replay starts there ([lesson 04](04-last-log-mark.ipynb)). So after a flush:

# %%
big.flush()
left = show_journals(big)
print("LastLogMark points into", big.store.marks[0].file_name)

# %% [markdown]
# ### Your turn: clean up
#
# Given the ids of all journals, the id of the one that LastLogMark points into, and `journalMaxBackups`, return the ids of those that may be removed. Of the journals that replay does not need, the newest `journalMaxBackups` stay as backups.


# %%
def my_removable(file_ids, mark_file_id, max_backups):
    # solution
    old = [file_id for file_id in file_ids if file_id < mark_file_id]
    return old[: max(0, len(old) - max_backups)]
    # learner
    # raise NotImplementedError  # ([1, 2, 3], 3, 1) -> a list of ids
    # end


# %% tags=["exercise"]
check("journal.removable", my_removable)

# %% [markdown]
# One step too far, and the bookie does not start:

# %% tags=["refused"]
check(
    "journal.removable",
    lambda ids, mark, backups: [i for i in ids if i <= mark],
    must_pass=False,
)

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
# | no sync at all | `journalSyncData=false`: acknowledged as soon as it is written |
#
# **A defect of version 4.17.** The force-write thread takes all waiting groups and syncs only the file of the last one. When the journal rolls, the groups of the old file are then acknowledged before their file is synced. The same mistake in labkit:

# %%
from labkit.system.storage.config import MIB

rolling = [Add(5, 0, MIB), Commit(), Add(5, 1), Commit()]
late = crash_map(rolling, store_factory=DEFECTS["wrong file synced at a roll"].store_factory)
print(late.smallest() or "safe")
print(crash_map(rolling).smallest() or "labkit's own journal: safe")

# %% [markdown]
# ## 7 · Questions
#
# <details><summary>The memtable gets an entry before the journal does. Isn't a write-ahead log written <i>ahead</i>?</summary>Ahead of the acknowledgement, and ahead of the entry log: that is what counts. A memtable is memory: a crash destroys it, and what the journal has synced stays. Lesson 04 shows why the order must be this one.</details>
# <details><summary>Zeros in the middle of a journal, good records behind them. What does replay find?</summary>The records before the zeros. To a reader this is the end of the file, and the next file is read.</details>
# <details><summary>Why does a padding with 5 bytes left not simply use those 5?</summary>Mask and count take 8 bytes. With fewer left the padding has to run to the end of the next block.</details>
# <details><summary>How many bytes does a journal write for one add of 1 byte, alone in its group?</summary>512: the record has 41 bytes, the padding the rest. In a group of a hundred, the same add costs 41.</details>
# <details><summary>The sync fails with an error. May the bookie try again?</summary>No. The operating system may have dropped the unwritten data from memory, and a second sync then succeeds without it. The bookie must stop acknowledging.</details>
#
# **Next:** [03 memtable, entry log, index](03-memtable-entry-log-index.ipynb): where the entry goes from here.
