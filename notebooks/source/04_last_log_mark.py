# %% [markdown]
# # 04 · Where does journal replay start after a crash?
#
# A bookie acknowledges an add once the entry's journal record has been synced. It writes the entry log and
# the index later, many entries at a time. If the machine crashes in between, only the journal has the
# missing entries. But a journal keeps growing. If the bookie had to read all of it at every start, it would
# take longer every day to start and could never delete any of it. So a bookie keeps a mark that points into
# the journal.
#
# **At the end you can**
# - look at a bookie's files and say which records it will replay at its next start,
# - look at the steps of a checkpoint in any order and say when a crash would lose entries,
# - write a checkpoint and a replay that lose no entries, and watch your own bookie survive every crash.
#
# **Takes** about 45 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson
# 03. Allow about 120 more minutes for writing the two parts, now or at home.
#
# > **The rule.** *LastLogMark never advances past a record until the record's entry is in the entry log
# > and the index, and both have been synced.* Every entry before the mark is on disk, so replay starts
# > at the mark.

# %% tags=["parameters"]
entry_count = 2  # entries added before the checkpoint
inside_count = 1  # entries added while the checkpoint runs
payload_size = 20  # bytes

# %%
import struct
from typing import Any

from labkit.course.lessons import (
    DEFECTS,
    Add,
    Checkpoint,
    Commit,
    CrashMapView,
    Fence,
    OneBookie,
    Restart,
    StorageDamagedException,
    compare,
    crash_map,
    entries_lost_first,
    parameters,
    predict,
    replay_after_cut,
    replayed_at_end,
    where_replay_gets_shorter,
)
from labkit.course.workshop import Disk, check, hint, overview, step, your_bookie

parameters("04", globals())

# %% [markdown]
# ## A picture first
#
# A script lists the operations of one bookie. This one adds entries, syncs the journal after each of them,
# and then starts a checkpoint. More entries arrive while the checkpoint is running.

# %%
TakeCheckpoint = Checkpoint  # you will write a `Checkpoint` yourself
adds = [Add(5, i, payload_size) for i in range(entry_count + inside_count)]
early = [each for add in adds[:entry_count] for each in (add, Commit())]
late = [each for add in adds[entry_count:] for each in (add, Commit())]
script = [*early, TakeCheckpoint(during=tuple(late))]

crashes = crash_map(script)
CrashMapView(crashes)

# %% [markdown]
# **How to read the map.** Each row is a disk operation of the bookie, and the machine crashes just before
# it. Each column is one kind of crash. A power failure may lose all unsynced data (*lost*) or none of it
# (*kept*, as when only the process dies). It may also tear a write in the middle, or lose file names but
# keep the bytes. For each cell, labkit starts the real storage code on the surviving files and looks up
# every acknowledged entry. Then the power fails again, and labkit looks up every entry once more.
#
# Choose some cells and read the explanation on the right. Step through the *checkpoint*. The bookie first
# writes the memtable to the entry log and syncs it, then writes and syncs the index. Only then does it
# write `lastMark` to a temporary file, sync it and rename it. Every cell is safe.

# %% [markdown]
# ## Predict
#
# After the last step of the script, the power fails (last row, column *lost*). How many journal records
# will the bookie replay at its next start? Decide before you run the cell, and replace `None` with your
# number.

# %%
# solution
my_number = inside_count
# learner
# my_number = None
# end
predict("records replayed at the end", my_number)

# %%
compare("records replayed at the end", replayed_at_end(crashes))

# %% [markdown]
# The bookie took the mark when the checkpoint started. Entries that arrived during the checkpoint have
# their journal records after the mark. On disk, these entries are only in the journal.
#
# What if the crash happens during the checkpoint? The number of replayed records drops at a single
# operation:

# %%
print(where_replay_gets_shorter(crashes))

# %% [markdown]
# That operation syncs the directory after the rename, which makes the new `lastMark` durable. Until then,
# the old mark applies, and the bookie replays more records than necessary. Replaying too many records costs
# time. Replaying too few loses data.

# %% [markdown]
# ## Break it: the mark first
#
# Here is the same store with one change: it persists LastLogMark *before* it writes the memtable. The
# change takes four lines of code, in `labkit/worlds/sim/variants/storage_variants.py`.
#
# Predict which entries of ledger 5 are lost in the first crash that loses an entry. Give a list of entry
# ids.

# %%
# solution
my_ids = list(range(entry_count + inside_count))
# learner
# my_ids = None
# end
predict("lost when the mark comes first", my_ids)

# %%
mark_first = DEFECTS["mark persisted before the flush"].store_factory
broken = crash_map(script, store_factory=mark_first)
compare("lost when the mark comes first", entries_lost_first(broken))

# %%
CrashMapView(broken)

# %% [markdown]
# Look at the selected cell. `lastMark` points past records whose entries are not in any other file. Replay
# trusts the mark and starts too late.
#
# But why does the crash lose even entries that arrived after the mark was taken? Replay does read their
# records, because they are after the mark. But the ledger's *key* record is before the mark, and no index
# file has the key yet. So replay does not know ledger 5. It assumes that the ledger has been deleted, and
# skips its records.
#
# Then look further down, where the cells are safe again. Only crashes within a certain window lose entries,
# so a test that crashes at one random moment can miss the bug.

# %% [markdown]
# ## Break it again: the mark too late
#
# Here is another change: the store takes the mark *after* the flush. It still persists the mark last. Does
# this lose entries? Try it with no adds during the checkpoint, and then with some.

# %%
mark_late = DEFECTS["mark taken after the flush"].store_factory
quiet = crash_map([*early, TakeCheckpoint()], store_factory=mark_late)
busy = crash_map(script, store_factory=mark_late)
print("no adds during the checkpoint:", quiet.smallest() or "safe")
print("adds during the checkpoint:", busy.smallest() or "safe")

# %% [markdown]
# On an idle bookie, every crash is harmless. Under load, the mark advances past records that arrived
# during the flush. Their entries are in the *new* memtable, which is not on disk. A test without load
# cannot find this bug.

# %% [markdown]
# ## The mark in memory and on disk
#
# In a running bookie, a timer triggers checkpoints. The mark in memory advances with each journal sync. The
# mark on disk advances only with a checkpoint. Watch one bookie, step by step:

# %%
bookie = OneBookie()
print("step         in memory      on disk")
for number, action in enumerate(("add", "add", "checkpoint", "add", "checkpoint")):
    if action == "add":
        bookie.add((5, number), payload_size=payload_size)
        bookie.commit()
    else:
        bookie.flush()
    marks = bookie.store.journals[0].synced, bookie.store.marks[0]
    print(f"{action:<12}", *(f"{mark.file_name} {mark.offset:<6}" for mark in marks))


# %% [markdown]
# Now run three bookies in the simulated world. A writer adds an entry every 10 ms, and one bookie loses
# power after `cut_at_ms`. Change the time of the power failure, or change the intervals (`flushInterval`).

# %%
cut_at_ms = 395  # yours to change: 100 to 600
for flush_interval_ms in (50, 100, 200, 1000):
    persisted_ms, count = replay_after_cut(flush_interval_ms, cut_at_ms)
    line = f"every {flush_interval_ms:>4} ms: mark persisted at {persisted_ms:>3} ms"
    print(f"{line}, {count:>2} records replayed")

# %% [markdown]
# With a long interval, a bookie has less work while it is running but more when it starts. It loses no
# entries either way.
#
# ## Your turn: the checkpoint
#
# You continue your bookie in `mybookie.py`. These are the six steps of a checkpoint, in alphabetical order:
# *persist the mark*, *remove old journals*, *set the memtable aside*, *take the mark*, *write and sync the
# entry log*, *write and sync the index*. Your class must run them in an order that loses no entries, even
# though adds can arrive at any moment. Your function `removable_journals` decides which journals can be
# deleted ([lesson 02](02-journal.ipynb), section 5).

# %%
step("bookie", 6)

# %%
# part bookie write_last_mark


# part bookie read_last_mark


# part bookie removable_journals


# part bookie Checkpoint

# %% tags=["exercise"]
check("bookie", 6, parts=[write_last_mark, read_last_mark, removable_journals, Checkpoint], seeds=6)

# %% [markdown]
# Stuck? Call `hint("bookie", 6)`. It gives you three hints, one at a time.
#
# ## Your turn: replay
#
# The last part reads the journals, starting at the mark, and applies each record. It uses the function
# `records` that you wrote in lesson 02. If you have not written `records`, labkit uses its own.

# %%
step("bookie", 7)

# %%
# part bookie replay


# part bookie redo

# %% tags=["exercise"]
check("bookie", 7, parts=[replay], seeds=6)

# %% [markdown]
# ## More ways to lose data, and one that only wastes time
#
# Each of these variants is the real store with one rule changed. The script is longer. It adds a fence with
# nothing else to flush, a restart, one more entry, and more checkpoints.

# %%
fence = [TakeCheckpoint(), Fence(5), Commit(), TakeCheckpoint()]
longer = [*script, *fence, Restart(), Add(6, 0), Commit(), TakeCheckpoint()]
for name in (
    "journals removed before the mark",
    "index before log, trusted",
    "fence not flushed",
    "replay keeps the mark",
):
    found = crash_map(longer, store_factory=DEFECTS[name].store_factory).smallest()
    print(f"{name}: {found or 'no crash loses anything'}")

# %% [markdown]
# The last variant loses nothing. But compare how many records the first start replays with how many the
# next start replays after a second power failure:

# %%
wasteful = crash_map(early, store_factory=DEFECTS["replay keeps the mark"].store_factory)
print("correct store:        ", crash_map(early).cells[-1][0].replayed)
print("replay keeps the mark:", wasteful.cells[-1][0].replayed)

# %% [markdown]
# A bookie with **several ledger directories** has one mark for all of them. In this variant, each directory
# is flushed separately, and the first one to finish advances the mark:

# %%
both = [Add(4, 0), Add(5, 0), Commit(), TakeCheckpoint()]
one_sided = DEFECTS["mark of one directory"].store_factory
for count in (1, 2):
    found = crash_map(both, store_factory=one_sided, ledger_dir_count=count)
    print(f"ledger directories: {count}: {found.smallest() or 'no crash loses anything'}")

# %% [markdown]
# ## Your bookie survives the crash map
#
# This is the longer script again, in a bookie with your parts. If all seven steps are yours, everything
# that this bookie stores, finds and restores is your own code.

# %%
CrashMapView(crash_map(longer, store_factory=your_bookie()))

# %%
overview("bookie")

# %% [markdown]
# In [lesson 16](16-build-a-bookie.ipynb), you run the same file as a process in a real cluster.
#
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `current/lastMark`: 16 bytes, journal id and offset | the same file (`Journal.LastLogMark`); each ledger directory has one, and the largest mark applies |
# | written to a second file, synced, renamed | truncated and overwritten in place: a crash can leave it unreadable, and the bookie then behaves as if there were no mark |
# | every memtable flush is a checkpoint | with the default `SortedLedgerStorage`, a checkpoint happens when a log fills up (`logSizeLimit`); `flushInterval` applies only with one log per ledger (`entryLogPerLedgerEnabled`) |
# | entry log synced before the index | index first; replay repairs this by writing the entries again |
# | replay skips entries that are already stored | every record is written again; compaction removes the old copy |
# | journals before the mark are deleted, except the newest `journalMaxBackups` | the same (default 5), in `Journal.checkpointComplete` |
#
# All of these known bugs concern LastLogMark:
# - **#2087**, fixed by #2105: replay did not advance the mark, as in *replay keeps the mark* above.
# - **#3329**, raised in #2083: with several entry log directories, the mark advanced past data that another
#   directory had not flushed yet. This is the variant *mark of one directory* above.
# - **#4105**: in 4.17, an older mark could overwrite a newer one. Since 4.18 (#4740) the two are
#   compared first.
# - `InterleavedLedgerStorage.flush` does nothing if no entry was written, so a fence without a new entry is
#   not flushed, yet the mark advances. This is the variant *fence not flushed* above.

# %% [markdown]
# ## Questions
#
# <details><summary>Is it safe if the mark is too early? What if it is too late?</summary>
#
# Too early is safe: replay applies some records again and finds that their entries are already stored.
# If the mark is too late, every entry between the correct position and the mark is lost.
# </details>
#
# <details><summary>Why is an entry put into the memtable before its record is written to the journal?</summary>
#
# The mark is the position up to which the journal has been synced. If a record could be synced before its
# entry reaches the memtable, the mark could cover an entry that is missing from the memtable being flushed.
# Because the entry goes into the memtable first, every record that has been synced when the mark is taken
# already has its entry in a memtable.
# </details>
#
# <details><summary>The power fails during replay. What happens at the next start?</summary>
#
# The bookie replays the same records again. The mark advances only after the replayed entries are on
# disk, and applying a record twice has the same effect as applying it once. The crash map covers this
# case as well: the rows of the step *restart* are crashes during a replay.
# </details>
#
# <details><summary>Which journal files can be deleted?</summary>
#
# Every file whose id is smaller than the id of the file that the persisted mark points into. The marked
# file itself must be kept, no matter where in it the mark points.
# </details>
#
# **Next:** [05 ensembles](05-ensembles.ipynb). A single bookie keeps its promises. But which bookies store
# an entry, and who knows?
