# %% [markdown]
# # 04 · After a crash, from where must the journal be read again?
#
# A bookie acknowledges an add once the entry's journal record has been synced. It writes the entry
# log and the index later, many entries at a time. If the machine crashes in between, only the journal
# has the missing entries. But a journal grows without end: reading all of it at every start would take
# longer every day, and no part of it could ever be deleted. So a bookie keeps a mark that points into
# the journal.
#
# **At the end you can**
# - tell from a bookie's files which records it will replay at its next start,
# - say for the steps of a checkpoint in any order at which moment a crash loses entries,
# - write a checkpoint and a replay that lose none, and see your own bookie survive the crash map.
#
# **Takes** about 45 minutes. **Needs** only Python; also works in a browser tab. **After** lesson 03.
# Writing the two parts takes about 120 more minutes. You can do it now or at home.
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
# A script lists the operations of one bookie. This one adds entries, syncing the journal after each,
# and then starts a checkpoint. While the checkpoint runs, more entries arrive.

# %%
TakeCheckpoint = Checkpoint  # you will write a `Checkpoint` yourself
adds = [Add(5, i, payload_size) for i in range(entry_count + inside_count)]
early = [each for add in adds[:entry_count] for each in (add, Commit())]
late = [each for add in adds[entry_count:] for each in (add, Commit())]
script = [*early, TakeCheckpoint(during=tuple(late))]

crashes = crash_map(script)
CrashMapView(crashes)

# %% [markdown]
# **How to read the map.** Each row is a disk operation of the bookie, and the machine crashes just
# before it. Each column is one kind of crash. A power failure may lose all unsynced data (*lost*) or
# none of it (*kept*, as when only the process dies), tear writes in the middle, or lose file names but
# keep the bytes. For each cell, the real storage code starts on the surviving files, and every
# acknowledged entry is looked up. Then the power fails again, and every entry is looked up once more.
#
# Choose some cells and read the explanation on the right. Step through the *checkpoint*: the memtable
# is written to the entry log and synced, then the index is written and synced, and only then is
# `lastMark` written to a second file, synced and renamed. Every cell is safe.

# %% [markdown]
# ## Predict
#
# After the last step of the script, the power fails (last row, column *lost*). How many journal records
# will be replayed at the next start? Decide before you run the cell, and replace `None` with your number.

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
# The mark was taken when the checkpoint started. The records of the entries that arrived while it was
# running are after the mark, and on disk these entries are only in the journal.
#
# What if the crash happens during the checkpoint? The number of replayed records drops at a single
# operation:

# %%
print(where_replay_gets_shorter(crashes))

# %% [markdown]
# That operation is the sync of the directory after the rename: it makes the new `lastMark` durable.
# Until then the old mark applies, and more records are replayed than necessary. Replaying too many
# records costs time; replaying too few costs data.

# %% [markdown]
# ## Break it: the mark first
#
# Here is the same store with one change: it persists LastLogMark *before* it writes the memtable. The
# change takes four lines of code, in `labkit/worlds/sim/variants/storage_variants.py`.
#
# Predict which entries of ledger 5 are lost in the first crash that loses any. Give a list of entry ids.

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
# Look at the selected cell: `lastMark` points past records whose entries are in no other file. Replay
# trusts the mark and starts too late.
#
# But why does the crash lose even entries that arrived after the mark was taken? Replay does read their
# records, because they come after the mark. But the ledger's *key* record comes before the mark, and no
# index file has the key yet. So replay does not know ledger 5, assumes that it has been deleted, and
# skips its records.
#
# Then look further down, where the cells become safe again. Only crashes within a certain window lose
# entries, so a test that crashes at one random moment can miss the bug.

# %% [markdown]
# ## Break it again: the mark too late
#
# Here is another change: the mark is taken *after* the flush. It is still persisted last. Does this
# lose entries? Try it with no adds during the checkpoint, and then with some.

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
# In a running bookie, a timer triggers checkpoints. In memory, the mark advances with each sync of the
# journal. On disk, it advances only with a checkpoint. Watch one bookie, step by step:

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
# power after `cut_at_ms`. Change the time of the power failure or the intervals (`flushInterval`).

# %%
cut_at_ms = 395  # yours to change: 100 to 600
for flush_interval_ms in (50, 100, 200, 1000):
    persisted_ms, count = replay_after_cut(flush_interval_ms, cut_at_ms)
    line = f"every {flush_interval_ms:>4} ms: mark persisted at {persisted_ms:>3} ms"
    print(f"{line}, {count:>2} records replayed")

# %% [markdown]
# With a long interval, a bookie has less work while it runs, but more when it starts. No entries are lost
# either way.
#
# ## Your turn: the checkpoint
#
# You continue your bookie in `mybookie.py`. These are the six steps of a checkpoint, in alphabetical
# order: *persist the mark*, *remove old journals*, *set the memtable aside*, *take the mark*, *write
# and sync the entry log*, *write and sync the index*. Your class puts them into an order that loses
# no entries, although adds arrive at any moment. Your function `removable_journals` decides which
# journals can go ([lesson 02](02-journal.ipynb), section 5).

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
# Stuck? `hint("bookie", 6)` gives you three hints, one at a time.
#
# ## Your turn: replay
#
# The last part reads the journals from the mark on, with the function `records` that you wrote in
# lesson 02, and applies each record. If you have not written `records`, labkit's own is used.

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
# Each of these variants is the real store with one rule changed. The script is longer: it adds a second
# checkpoint, a fence with nothing else to flush, and a restart.

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
# The last variant loses nothing. But look at how many records the first start replays, and how many
# the next start replays after a second power failure:

# %%
wasteful = crash_map(early, store_factory=DEFECTS["replay keeps the mark"].store_factory)
print("correct store:        ", crash_map(early).cells[-1][0].replayed)
print("replay keeps the mark:", wasteful.cells[-1][0].replayed)

# %% [markdown]
# A bookie with **several ledger directories** has one mark for all of them. In this variant each
# directory is flushed separately, and the first one to finish advances the mark:

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
# In [lesson 16](16-build-a-bookie.ipynb), the same file becomes a process in a real cluster.
#
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `current/lastMark`: 16 bytes, journal id and offset | the same file (`Journal.LastLogMark`); one in each ledger directory, of which the largest applies |
# | written to a second file, synced, renamed | truncated and overwritten in place: a crash can leave it unreadable, which is treated as no mark |
# | every memtable flush is a checkpoint | with the default `SortedLedgerStorage`, a checkpoint happens when a log fills up (`logSizeLimit`); `flushInterval` applies only with one log per ledger (`entryLogPerLedgerEnabled`) |
# | entry log synced before the index | index first; replay repairs this by writing the entries again |
# | replay skips entries that are already stored | every record is written again; compaction removes the old copy |
# | journals before the mark are deleted, except the newest `journalMaxBackups` | the same (default 5), in `Journal.checkpointComplete` |
#
# All of these known bugs concern this one mark:
# - **#2087**, fixed by #2105: replay did not advance the mark, as in *replay keeps the mark* above.
# - **#3329**, raised in #2083: with several entry log directories, the mark advanced past data that
#   another directory had not flushed yet. That is *mark of one directory* above.
# - **#4105**: in 4.17, an older mark could overwrite a newer one. Since 4.18 (#4740) the two are
#   compared first.
# - `InterleavedLedgerStorage.flush` does nothing if no entry was written, so a fence without a new entry
#   is not flushed, yet the mark advances. That is *fence not flushed* above.

# %% [markdown]
# ## Questions
#
# <details><summary>Is it safe if the mark is set too early? What if it is too late?</summary>
#
# Too early is safe: replay applies some records again and finds that their entries are already stored.
# If the mark is too late, every entry between the correct position and the mark is lost.
# </details>
#
# <details><summary>Why is an entry put into the memtable before its record is written to the journal?</summary>
#
# The mark is the position up to which the journal has been synced. If a record could be synced before its
# entry reaches the memtable, the mark could cover an entry that is missing from the memtable being flushed.
# Because an entry is put into the memtable first, every record that has been synced when the mark is taken
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
# Those with a smaller id than the file that the persisted mark points into. The marked file itself is
# always kept, no matter where in it the mark points.
# </details>
#
# **Next:** [05 ensembles](05-ensembles.ipynb). One bookie keeps its promises. Which bookies store an
# entry, and who knows?
