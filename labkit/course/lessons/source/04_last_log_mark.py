# %% [markdown]
# # 04 · After a crash, from where must the journal be read again?
#
# A bookie answers an add once the entry's journal record is synced. Entry log and index follow
# later, many entries at a time. When the machine stops in between, the journal has what they lack.
# But a journal grows without end: reading all of it at every start would take longer every day, and
# none of it could ever be removed. So a bookie keeps a mark that points into the journal.
#
# **At the end you can**
# - say from a bookie's files what its next start replays,
# - write the decision that replay makes for each record,
# - put the steps of a checkpoint into the one order that loses nothing, and say for every other order
#   at which moment a crash breaks it.
#
# **Takes** about 60 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 03.
#
# > **The rule.** *LastLogMark never passes a record before its entry is in the entry log and the
# > index, and both are synced.* Everything before the mark is on disk, so replay starts at the mark.

# %% tags=["parameters"]
entry_count = 2  # entries added before the checkpoint
inside_count = 1  # entries added while the checkpoint runs
payload_size = 20  # bytes

# %%
from labkit import At, Cluster, Crash, Scenario, Write, run
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.one_bookie import OneBookie
from labkit.views.widgets.crash_map import CrashMapView
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.settings.bookie_script import Add, Checkpoint, Commit, Fence, Restart
from labkit.worlds.sim.variants.storage_variants import DEFECTS

parameters("04", globals())

# %% [markdown]
# ## A picture first
#
# A script says what one bookie does. This one adds entries, each followed by a sync of the journal,
# and then begins a checkpoint; while the checkpoint runs, more entries come in.

# %%
adds = [Add(5, i, payload_size) for i in range(entry_count + inside_count)]
early = [step for add in adds[:entry_count] for step in (add, Commit())]
late = [step for add in adds[entry_count:] for step in (add, Commit())]
script = [*early, Checkpoint(during=tuple(late))]

crashes = crash_map(script)
CrashMapView(crashes)

# %% [markdown]
# **How to read it.** Each row is something that the bookie asks of its disks: the machine stops just
# before it. Each column is one way to crash: a power cut may take everything that was not synced
# (*lost*), leave everything (*kept*, as when only the process dies), tear writes in the middle, or
# lose names and keep bytes. For each cell the real storage code starts on what is left, and every
# acknowledged entry is looked up; then the power fails again, and every entry is looked up once more.
#
# Choose cells and read the right side. Go down the *checkpoint*: the memtable is written to the entry
# log and synced; then the index is written and synced; only then `lastMark` is written to a second
# file, synced and renamed. Every cell is safe.

# %% [markdown]
# ## Predict
#
# The script has ended and the power fails (the last row, column *lost*). How many journal records
# does the next start apply? Think before you run: replace `None` with your number.

# %%
# solution
my_number = inside_count
# learner
# my_number = None
# end
predict("records replayed at the end", my_number)

# %%
compare("records replayed at the end", crashes.cells[-1][0].replayed[0])

# %% [markdown]
# The mark was taken when the checkpoint began. The entries that arrived while it ran are after the
# mark, and only the journal has them.
#
# And in the middle? The number of records that each row would replay falls at one single operation:

# %%
for before, after in zip(crashes.points, crashes.points[1:], strict=False):
    counts = [crashes.cells[point.number][0].replayed[0] for point in (before, after)]
    if counts[1] < counts[0]:
        print(f"{counts[0]} records before, {counts[1]} after: {before.operation}")

# %% [markdown]
# That is the sync of the directory after the rename: from this moment the new `lastMark` is durable.
# Until then the old mark counts, and more is replayed than needed. Replaying too much costs time;
# replaying too little costs data.

# %% [markdown]
# ## Break it: the mark first
#
# Here is the same store with one change: LastLogMark is persisted *before* the memtable is written.
# It is real code, in `labkit/worlds/sim/variants/storage_variants.py`, four lines long.
#
# Predict which entries the first bad crash loses, as a list of entry ids of ledger 5.

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
compare("lost when the mark comes first", [p.number for p in broken.smallest().cell.lost])

# %%
CrashMapView(broken)

# %% [markdown]
# Look at the chosen cell: `lastMark` points past records whose entries are in no other file. Replay
# trusts the mark and begins too late.
#
# But why are the entries lost that arrived after the mark was taken? Their records lie after it, and
# replay reads them. The ledger's *key* record lies before it, though, and no index file has the key
# yet: replay does not know ledger 5, takes it for deleted, and skips its records.
#
# Then go down the rows, to where the cells are safe again. Only crashes within a window do harm; a test
# that crashes at one random moment can miss it.

# %% [markdown]
# ## Break it again: the mark too late
#
# Another change: the mark is taken when the flush has *ended*. It is still persisted last. Does that
# lose anything? Try it without an add during the checkpoint, and with one.

# %%
mark_late = DEFECTS["mark taken after the flush"].store_factory
quiet = crash_map([*early, Checkpoint()], store_factory=mark_late)
busy = crash_map(script, store_factory=mark_late)
print("nothing added inside:", quiet.smallest() or "safe")
print("one added inside:", busy.smallest() or "safe")

# %% [markdown]
# On a quiet bookie every crash is harmless. Under load the mark passes records that arrived during the
# flush: their entries are in the *new* memtable, which is not on disk. A test without load cannot
# find this defect.

# %% [markdown]
# ## The mark and the clock
#
# A running bookie has a timer that calls `checkpoint`; you need not. In memory the mark follows each sync
# of the journal; to the disk it comes with a checkpoint. One bookie, step by step:

# %%
bookie = OneBookie()
print("step         in memory      on disk")
for number, step in enumerate(("add", "add", "checkpoint", "add", "checkpoint")):
    if step == "add":
        bookie.add((5, number), payload_size=payload_size)
        bookie.commit()
    else:
        bookie.flush()
    marks = bookie.store.journals[0].synced, bookie.store.marks[0]
    print(f"{step:<12}", *(f"{mark.file_name} {mark.offset:<6}" for mark in marks))


# %% [markdown]
# Now three bookies in the simulated world: a writer adds an entry every 10 ms, and the power of one
# bookie fails after `cut_at_ms`. Change the moment, or the intervals (`flushInterval`).


# %%
def after_cut(flush_interval_ms, cut_at_ms):
    """When the mark was last persisted before the power cut, and how many records are replayed."""
    cluster = Cluster(3, flush_interval_ms=flush_interval_ms)
    cut = Crash("b0", "lost", down_ms=50, when=At(cut_at_ms))
    write = Write(entries=60, every_ms=10, close=False)
    events = [e for e in run(Scenario(cluster, (write,), (cut,))).events if e.node == "b0"]
    replayed = next(e for e in events if e.kind == "journal.replayed" and e.size)
    persisted = [e for e in events[: events.index(replayed)] if e.kind == "mark.persisted"]
    return persisted[-1].time_us // 1000, replayed.size


# %%
cut_at_ms = 395  # yours to change: 100 to 600
for flush_interval_ms in (50, 100, 200, 1000):
    persisted_ms, count = after_cut(flush_interval_ms, cut_at_ms)
    line = f"every {flush_interval_ms:>4} ms: mark of {persisted_ms:>3} ms"
    print(f"{line}, {count:>2} records replayed")

# %% [markdown]
# A long interval is cheap while the bookie runs, and expensive when it starts. Nothing is lost either way.
#
# ## Exercise 1: replay from the mark
#
# Replay reads the journals record by record, and for each record decides whether to apply it. `mark`
# and `record` are places: `record.file_id` is the number of the journal file, `record.offset` the byte
# in it where the record begins. Your function goes into the real replay.


# %%
# solution
def must_replay(mark, record):
    return record >= mark


# learner
# def must_replay(mark, record):
#     """True if the record at this place must be applied."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("last_log_mark.replay", must_replay)

# %% [markdown]
# Stuck? `hint("last_log_mark.replay")` gives three hints, one after the other.

# %% [markdown]
# ## Exercise 2: when may the mark move?
#
# These are the six steps of a checkpoint, in alphabetical order. Put them into an order that loses
# nothing. Your order goes into the real store; adds arrive before the first step, between any two, and
# after the last, and every crash of each is tried.

# %%
steps = [
    "persist the mark",
    "remove old journals",
    "set the memtable aside",
    "take the mark",
    "write and sync the entry log",
    "write and sync the index",
]

# %%
# solution
my_order = [steps[i] for i in (3, 2, 4, 5, 0, 1)]
# learner
# my_order = None  # [steps[...], steps[...], ...] or the names in your order
# end

# %% tags=["exercise"]
check("last_log_mark.checkpoint", my_order)

# %% [markdown]
# What does a wrong order look like? This one moves the mark first and writes the entries later:

# %% tags=["refused"]
check("last_log_mark.checkpoint", [steps[i] for i in (3, 0, 1, 4, 5, 2)], must_pass=False)

# %% [markdown]
# ## More ways to lose data, and one that only wastes time
#
# Each of these is the real store with one rule changed. The script is longer: a second checkpoint, a
# fence with nothing else to flush, a restart.

# %%
fence = [Checkpoint(), Fence(5), Commit(), Checkpoint()]
longer = [*script, *fence, Restart(), Add(6, 0), Commit(), Checkpoint()]
for name in (
    "journals removed before the mark",
    "index before log, trusted",
    "fence not flushed",
    "replay keeps the mark",
):
    found = crash_map(longer, store_factory=DEFECTS[name].store_factory).smallest()
    print(f"{name}: {found or 'no crash loses anything'}")

# %% [markdown]
# The last one loses nothing. But look at how many records the first start replays, and how many the
# next one does, after a second power cut:

# %%
keeps_mark = DEFECTS["replay keeps the mark"].store_factory
wasteful = crash_map(early, store_factory=keeps_mark)
print("as it should be:      ", crash_map(early).cells[-1][0].replayed)
print("replay keeps the mark:", wasteful.cells[-1][0].replayed)

# %% [markdown]
# A bookie with **several ledger directories** has one mark for all of them. Here each directory is
# flushed separately, and the first one to finish moves the mark:

# %%
both = [Add(4, 0), Add(5, 0), Commit(), Checkpoint()]
one_sided = DEFECTS["mark of one directory"].store_factory
for count in (1, 2):
    found = crash_map(both, store_factory=one_sided, ledger_dir_count=count)
    print(f"ledger directories: {count}: {found.smallest() or 'no crash loses anything'}")

# %% [markdown]
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `current/lastMark`: 16 bytes, journal id and offset | the same file (`Journal.LastLogMark`); one in each ledger directory, the largest counts |
# | written to a second file, synced, renamed | truncated and written in place: a crash can leave it unreadable, which counts as no mark |
# | every memtable flush is a checkpoint | with the default `SortedLedgerStorage` when a log fills up (`logSizeLimit`); `flushInterval` counts with one log per ledger (`entryLogPerLedgerEnabled`) |
# | entry log synced before the index | index first; replay writes the entries again, so it heals |
# | replay skips entries that are already stored | every record is written once more; compaction removes the old copy |
# | journals before the mark are removed, except the newest `journalMaxBackups` | the same (default 5), in `Journal.checkpointComplete` |
#
# Known defects, all about this one mark:
# - **#2087**, fixed by #2105: replay did not move the mark, as in *replay keeps the mark* above.
# - **#3329**, asked about in #2083: with several entry log directories the mark passed data that
#   another directory had not flushed yet. That is *mark of one directory* above.
# - **#4105**: in 4.17 a mark that was persisted later could be an earlier one; since 4.18 (#4740) the two are
#   compared first.
# - A fence without a new entry is missed: `InterleavedLedgerStorage.flush` does nothing when no entry
#   was written, yet the mark moves. That is *fence not flushed* above.

# %% [markdown]
# ## Questions
#
# <details><summary>May the mark stand too early? May it stand too late?</summary>
#
# Too early is safe: replay applies some records again and finds their entries already stored. Too
# late loses every entry between the true place and the mark.
# </details>
#
# <details><summary>Why is an entry put into the memtable before its record goes to the journal?</summary>
#
# The mark is the place up to which the journal is synced. If a record could be synced before its entry
# reaches the memtable, the mark could cover an entry that is missing in the memtable being flushed.
# Memtable first means: every record synced at the moment of the mark already has its entry in a
# memtable.
# </details>
#
# <details><summary>The power fails while replay is running. What does the next start do?</summary>
#
# It replays the same records again. The mark moves only after the replayed entries are on disk, and
# applying a record twice leaves one entry. The crash map tries this as well: the rows of the step
# *restart* are stops inside a replay.
# </details>
#
# <details><summary>Which journals may be removed?</summary>
#
# Those with a smaller id than the file of the persisted mark. The marked file itself stays, wherever
# in it the mark points.
# </details>
#
# **Next:** [05 ensembles](05-ensembles.ipynb): one bookie keeps its promises. Which bookies store an
# entry, and who knows?
