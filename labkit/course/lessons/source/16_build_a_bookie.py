# %% [markdown]
# # 16 · How do you build a bookie?
#
# You have changed single decisions of a bookie. Now you write one: six parts in one file, `mybookie.py`, which grows with each step. What you have not written yet is labkit's own, so your first forty lines already run inside a whole bookie.
#
# **At the end you can** write a journal with group commit, a memtable, an entry log, an index, a checkpoint and a replay that lose nothing that was acknowledged, in Apache BookKeeper's formats, and show it for every crash of the disk.
#
# **Takes** about 360 minutes. **Needs** Python alone, in a browser tab as well; the last step needs ZooKeeper and real processes. **After** lesson 04.
#
# > **The rule.** *An answer is a promise: what was acknowledged is there after every crash, whichever part was at work.*

# %% tags=["parameters"]
entry_count = 4  # entries in the pictures
seed_count = 6  # storms in each check; `labkit workshop` runs 200
payload_size = 20

# %%
from dataclasses import replace

from labkit.course.lessons import compare, parameters, predict
from labkit.course.runs.one_bookie import OneBookie
from labkit.course.runs.timeline import timeline

# %%
from labkit.course.workshop import begin, check, step
from labkit.course.workshop.bookie.inside import ONE_ADD
from labkit.course.workshop.step import track
from labkit.system.model.byte_region import Piece
from labkit.system.storage.xray import entry_log_spans, index_spans, journal_spans
from labkit.views.widgets import BookieInside, XRay
from labkit.views.widgets.crash_map import CrashMapView
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.explore.orders.every_order import every_order
from labkit.worlds.sim.settings.bookie_script import Add, Checkpoint, Commit
from labkit.worlds.sim.variants.storage_variants import DEFECTS

parameters("16", globals())

# %% [markdown]
# ## The picture: what you will build
#
# Press ▶. Every box is a part of yours, and so is every arrow between them.

# %%
bookie = OneBookie()
for entry_id in range(entry_count):
    bookie.add((5, entry_id), (6, entry_id), payload_size=payload_size)
    bookie.commit()
bookie.flush()
BookieInside(bookie.trace)

# %% [markdown]
# | step | part | what it is for |
# | --- | --- | --- |
# | 1 | `Journal` | makes adds durable, many with one sync |
# | 2 | `Memtable` | keeps entries sorted until they are flushed |
# | 3 | `EntryLog` | holds the entries of all ledgers |
# | 4 | `Index` | knows where each entry of a ledger lies |
# | 5 | `Checkpoint` | brings the memtable to disk, then moves LastLogMark |
# | 6 | `replay` | does again what the journal has and the others lack |
#
# Every step runs the same way: what must always hold (the **invariants**), a picture, the **red test**, which fails until you begin, and the check. The check tries your part by itself, on hundreds of drawn cases; then in a bookie that is stopped at every operation of its disk; then in every order of the messages of one add; then in storms of the simulated cluster. At the end it counts what your part costs: the **figure** is a ratio to labkit's own cost.
#
# ## Your file
#
# The next cell makes `mybookie.py` in this notebook's folder, with the contract of each part. It never overwrites a file that is there. Open it beside this notebook and write where it raises `NotImplementedError`. Each check reads the file from disk: save it, then run the cell again.

# %%
# solution
my_file = track("bookie").solution
# learner
# my_file = begin("bookie")
# end
print(my_file.name)

# %% [markdown]
# ## Step 1 · The journal

# %%
step("bookie", 1)

# %%
journal = bookie.machine.journals[0]
spans = tuple(journal_spans(journal, 1))
ends = bookie.store.journals[0].synced.offset
shown = tuple(span for span in spans if span.offset >= 512 and span.offset + span.size <= ends)
data = journal.open("current/1.txn").read(512, ends - 512)
XRay(Piece("journal", "current/1.txn", 512, data, shown, ends))

# %% [markdown]
# Records lie one behind the other; padding fills each group up to the next block. While one group is on its way to the disk, in another thread, the records of the next one arrive: `append` and `seal` are quick and touch no disk, `write` is slow.
#
# **Predict.** 64 adds in groups of 8. How many syncs of the journal?

# %%
# solution
predict("syncs of 64 adds", 8)
# learner
# predict("syncs of 64 adds", None)
# end

# %%
grouped = OneBookie()
before = len(grouped.machine.journals[0].fuse.operations)
for first in range(0, 64, 8):
    grouped.add(*((5, first + number) for number in range(8)))
    grouped.commit()
done = grouped.machine.journals[0].fuse.operations[before:]
compare("syncs of 64 adds", sum(operation.kind == "sync" for operation in done))

# %% [markdown]
# Write the class `Journal`, then:

# %% tags=["exercise"]
check("bookie", 1, my_file, seeds=seed_count)

# %% [markdown]
# ### What a refusal looks like
#
# A refusal comes with the smallest case that shows it, opened in a view. Here is a bookie of labkit with a mistake on purpose: it answers while the sync is still under way. First the **crash map**: each row is a moment at which the machine stops, each column a fate of the bytes that were not synced. Choose a red cell.

# %%
hasty = "ack before sync"
script = [Add(5, 0), Add(5, 1), Commit(), Add(5, 2), Commit()]
CrashMapView(crash_map(script, store_factory=DEFECTS[hasty].store_factory))

# %% [markdown]
# Then the same mistake in every order of one add's messages, with a crash between any two of them. The run opens where the promise broke; step backwards to see why.

# %%
one_add = replace(ONE_ADD, variant=hasty)
found = every_order(one_add, crashes=1, stop_at=1, on_progress=lambda states, broken: None)
timeline(found.findings[0].scenario)

# %% [markdown]
# ## Step 2 · The memtable

# %%
step("bookie", 2)

# %%
waiting = OneBookie()
for entry_id in range(entry_count):
    waiting.add((6, entry_id), (5, entry_id), payload_size=payload_size)
    waiting.commit()
BookieInside(waiting.trace)

# %% [markdown]
# Entries arrive interleaved, and leave sorted: a reader of one ledger then finds its entries side by side in the entry log ([lesson 03](03-memtable-entry-log-index.ipynb)). A client that got no answer sends an entry again, so the same entry may come twice; and a reader that asks for a ledger's last entry asks often.
#
# Write the class `Memtable`, then:

# %% tags=["exercise"]
check("bookie", 2, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 3 · The entry log

# %%
step("bookie", 3)

# %%
disk = bookie.machine.ledgers[0]
log = disk.open("current/0.log")
spans = tuple(span for span in entry_log_spans(disk, 0) if span.offset >= 1024)
XRay(Piece("entry log", "current/0.log", 1024, log.read(1024, log.size()), spans, log.size()))

# %% [markdown]
# The header has 1024 bytes; then each entry lies behind its length. A location points to the entry, not to its length. `read_entry` must not believe what it reads: a location may lead to the bytes of another entry, and a damaged length may ask for two gigabytes.
#
# Write the class `EntryLog` and the function `read_entry`, then:

# %% tags=["exercise"]
check("bookie", 3, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 4 · The index

# %%
step("bookie", 4)

# %%
index = disk.open("current/0/5/5.idx")
spans = tuple(span for span in index_spans(disk, 5) if span.offset + span.size <= 1024)
XRay(Piece("index", "current/0/5/5.idx", 0, index.read(0, 1024), spans, index.size()))

# %% [markdown]
# The header knows the ledger: its master key, whether it is fenced, its explicit LAC. Behind it lie the slots, eight bytes for each entry id. A name on disk must be made durable like any other data, and so must the names of the folders above it.
#
# Write the class `Index`, then:

# %% tags=["exercise"]
check("bookie", 4, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 5 · The checkpoint and LastLogMark

# %%
step("bookie", 5)

# %% [markdown]
# The work of a checkpoint takes long, and adds go on beside it. This crash map is of labkit's own bookie; entry 5/1 arrives while the checkpoint runs. No cell is red.

# %%
busy = [Add(5, 0), Commit(), Checkpoint((Add(5, 1), Commit()))]
CrashMapView(crash_map(busy))

# %% [markdown]
# **Predict.** Another bookie does the same things, but asks how far the journal is durable only when its flush has ended. Which entries does a crash take away? Give a list of entry ids of ledger 5.

# %%
# solution
predict("lost when the mark is taken late", [1])
# learner
# predict("lost when the mark is taken late", None)  # [...]
# end

# %%
late = crash_map(busy, store_factory=DEFECTS["mark taken after the flush"].store_factory)
compare("lost when the mark is taken late", [entry.number for entry in late.smallest().cell.lost])

# %% [markdown]
# Write the two functions for the mark and the class `Checkpoint`, then:

# %% tags=["exercise"]
check("bookie", 5, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 6 · Replay

# %%
step("bookie", 6)

# %% [markdown]
# A bookie stores four entries, flushes, stores three more and loses power. Look at what it does when it starts again.

# %%
died = OneBookie()
died.add(*((5, entry_id) for entry_id in range(4)), payload_size=payload_size)
died.commit()
died.flush()
died.add(*((5, entry_id) for entry_id in range(4, 7)), payload_size=payload_size)
died.commit()
died.crash()
died.restart()
BookieInside(died.trace)

# %% [markdown]
# **Predict.** How many records of the journal did the start do again?

# %%
# solution
predict("records replayed", 3)
# learner
# predict("records replayed", None)
# end

# %%
replayed = [event.size for event in died.trace.events if event.kind == "journal.replayed"]
compare("records replayed", sum(replayed))

# %% [markdown]
# A start may itself be interrupted by a crash, so doing a record again, twice or ten times, must change nothing.
#
# Write `records` and `replay`, then:

# %% tags=["exercise"]
check("bookie", 6, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 7 · A real process
#
# Nothing new to write. This step starts ZooKeeper and processes, which a browser tab cannot run: at home or on Binder, type in a terminal, in the folder of your file:
#
# ```
# labkit workshop bookie        every step, each under 200 seeds
# labkit workshop bookie 7      your bookie as a process of a live cluster
# ```
#
# A client writes to your bookie, which is killed by SIGKILL in the middle of its adds and started again. Everything that it acknowledged must be there, and labkit's shell reads its files. They are BookKeeper's own: `bookkeeper shell readjournal` and `readlog` read them too, and BookKeeper's bookie can go on in your directories. With `labkit bookie --store mybookie.py` yours serves any client.
#
# ## Open challenges
#
# Nothing checks these. Each is a part of the real system that your bookie does not have.

# %%
for each in track("bookie").steps:
    print(f"{each.number} {each.name}")
    for challenge in each.challenges:
        print(f"  - {challenge}")

# %% [markdown]
# ## What the real system does
#
# | yours | in BookKeeper |
# | --- | --- |
# | `Journal` | `bookie/Journal.java`, `JournalChannel.java` |
# | `Memtable` | `bookie/EntryMemTable.java`, a skip list with a snapshot |
# | `EntryLog` | `bookie/DefaultEntryLogger.java`, `EntryLogManagerBase.java` |
# | `Index` | `bookie/FileInfo.java`, `IndexPersistenceMgr.java` |
# | `Checkpoint` | `bookie/SyncThread.java`, `SortedLedgerStorage.java` |
# | `replay` | `Journal.scanJournal`, `Bookie.readJournal` |
#
# ## Questions
#
# <details><summary>Your bookie passes 200 storms. Is it right?</summary>
#
# The storms are a sample. Every crash of the scripts and every order of the small scenario are not: there, nothing is left out. What no script does, nothing has tried.
# </details>
#
# <details><summary>Why does the figure count operations and not seconds?</summary>
#
# Seconds differ from machine to machine and from run to run. An operation of a disk is the same everywhere, and a sync is what an add waits for.
# </details>
#
# <details><summary>Which of your parts may forget everything in a crash?</summary>
#
# The memtable. What it holds has been in the journal since before the answer, behind LastLogMark.
# </details>
#
# **Next:** [17 build a client](17-build-a-client.ipynb): the other side of the wire, after [lesson 08](08-fencing-recovery.ipynb).
