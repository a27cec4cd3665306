# %% [markdown]
# # 16 · How do you build a bookie?
#
# In lessons 02 to 04, you wrote the storage of a bookie, part by part, in the file `mybookie.py`. Here you complete this file and test the whole bookie: in storms, with its messages in every order, and finally as a process of a real cluster. If you skipped those parts, you can write all of them here. labkit provides the components that you have not written yet, so even your first forty lines run inside a complete bookie.
#
# **At the end you can** write a journal with group commit, a memtable, an entry log, an index, a checkpoint and a replay that never lose an acknowledged entry. They use Apache BookKeeper's file formats, and you can demonstrate that they survive a crash at every disk operation.
#
# **Takes** about 360 minutes. **Needs** only Python, and also works in a browser tab. The last step needs ZooKeeper and real processes. **Prerequisite:** lesson 04. If you wrote steps 1 to 7 in lessons 02 to 04, allow about 60 minutes.
#
# > **The rule.** *An acknowledgement is a promise: every acknowledged entry survives every crash, no matter which component was running at that moment.*

# %% tags=["parameters"]
entry_count = 4  # entries in the pictures
seed_count = 6  # runs with random faults per check; `labkit workshop` does 200
payload_size = 20

# %%
from dataclasses import replace

from labkit.course.lessons import (
    DEFECTS,
    ONE_ADD,
    Add,
    BookieInside,
    Checkpoint,
    Commit,
    CrashMapView,
    OneBookie,
    XRay,
    add_in_groups,
    compare,
    crash_map,
    entries_lost_first,
    entry_log_bytes,
    every_order,
    index_bytes,
    journal_bytes,
    parameters,
    predict,
    records_replayed,
    timeline,
    track,
)

# %%
from labkit.course.workshop import begin, check, hint, overview, play, step

parameters("16", globals())

# %% [markdown]
# ## The picture: what you will build
#
# Press ▶. You will write the code for every box and for every arrow.

# %%
bookie = OneBookie()
for entry_id in range(entry_count):
    bookie.add((5, entry_id), (6, entry_id), payload_size=payload_size)
    bookie.commit()
bookie.flush()
BookieInside(bookie.trace)

# %% [markdown]
# | step | component | purpose |
# | --- | --- | --- |
# | 1 | `Journal` | makes adds durable, many with one sync |
# | 2 | `records` | reads the records of a journal |
# | 3 | `Memtable` | keeps entries sorted until they are flushed |
# | 4 | `EntryLog` | stores the entries of all ledgers |
# | 5 | `Index` | stores the location of each entry of a ledger |
# | 6 | `Checkpoint` | writes the memtable to disk, then advances LastLogMark |
# | 7 | `replay` | applies the journal records that the other files lack |
#
# Every step has the same structure: the **contract**, whose lines begin with "Always", a picture, the **red test**, which fails until your code passes it, and the check. If the check refuses your code, it names the line of the contract that your code violates. `hint("bookie", 1)` gives up to three hints for step 1. The check first tests your component alone, with hundreds of generated cases. Then it runs the component in a bookie that crashes at every disk operation, and with the messages of one add in every possible order. After that, it runs **storms**: the simulated cluster with random faults, such as crashes and lost messages. Finally, it compares the number of disk operations and bytes with those of labkit's own component.
#
# ## Your file
#
# If `mybookie.py` from lessons 02 to 04 is in this notebook's directory, you continue with it. If not, the next cell creates it, with the contract of each component. The cell never overwrites an existing file. Open the file and replace each `raise NotImplementedError` with your code. Each check reads the file from disk, so save it before you run a check.

# %%
# solution
my_file = track("bookie").solution
# learner
# my_file = begin("bookie")
# end
overview("bookie", my_file)

# %% [markdown]
# ## Step 1 · The journal

# %%
step("bookie", 1)

# %%
XRay(journal_bytes(bookie, start=512))

# %% [markdown]
# Records follow one another, and padding fills up each group to the next block of 512 bytes. While one thread writes a group to disk, the records of the next group arrive. So `append` and `seal` must be fast and must not touch the disk, while `write` may be slow.
#
# **Predict.** A new bookie stores 64 adds in groups of 8. Each add takes 60 bytes in the journal, and the ledger's key record takes 44 bytes. How many bytes does the bookie write after the journal header?

# %%
# solution
predict("bytes written for 64 adds", 1024 + 7 * 512)
# learner
# predict("bytes written for 64 adds", None)
# end

# %%
compare("bytes written for 64 adds", add_in_groups(64, 8).bytes_written)

# %% [markdown]
# The key record pushes the first group into a second block: 44 + 8 · 60 = 524 bytes. Every other group fits into one block. With groups of one, each add would take a whole block, or 32,768 bytes in total.
#
# Write the class `Journal`, and then run its check:

# %% tags=["exercise"]
check("bookie", 1, my_file, seeds=seed_count)

# %% [markdown]
# ### What a refusal looks like
#
# If the check refuses your code, you see the smallest case that shows the problem. Here is labkit's own bookie with a deliberate bug: it acknowledges adds while the sync is still in progress. First look at the **crash map**. Each row is a moment at which the machine crashes, and each column is one possible fate of the unsynced bytes. Choose a red cell.

# %%
hasty = "ack before sync"
script = [Add(5, 0), Add(5, 1), Commit(), Add(5, 2), Commit()]
CrashMapView(crash_map(script, store_factory=DEFECTS[hasty].store_factory))

# %% [markdown]
# Then look at the same bug in another search. It tries the messages of one add in every order, with a crash between any two of them. The run opens where it broke the promise. Step backwards to see why.

# %%
one_add = replace(ONE_ADD, variant=hasty)
found = every_order(one_add, crashes=1, stop_at=1, on_progress=lambda states, broken: None)
timeline(found.findings[0].scenario)

# %% [markdown]
# ## Step 2 · Reading the journal

# %%
step("bookie", 2)

# %% [markdown]
# The size of a journal file does not tell you where the records end, and a crash may have torn the last record ([lesson 02](02-journal.ipynb)).
#
# Write the function `records`, and then run its check:

# %% tags=["exercise"]
check("bookie", 2, my_file)

# %% [markdown]
# ## Step 3 · The memtable

# %%
step("bookie", 3)

# %%
waiting = OneBookie()
for entry_id in range(entry_count):
    waiting.add((6, entry_id), (5, entry_id), payload_size=payload_size)
    waiting.commit()
BookieInside(waiting.trace)

# %% [markdown]
# Entries arrive interleaved, and the bookie flushes them in sorted order, so that each ledger's entries are next to each other in the entry log ([lesson 03](03-memtable-entry-log-index.ipynb)). A client that does not get a response resends the entry, so the same entry may arrive twice. Readers often ask for a ledger's last entry, so you must be able to find it fast.
#
# Write the class `Memtable`, and then run its check:

# %% tags=["exercise"]
check("bookie", 3, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 4 · The entry log

# %%
step("bookie", 4)

# %%
XRay(entry_log_bytes(bookie))

# %% [markdown]
# The log has a 1024-byte header. After that, each entry is preceded by its length. A location points to the entry, not to its length. `read_entry` must not trust the bytes that it reads. A location may point to another entry, and a damaged length field may claim that the entry is two gigabytes long.
#
# Write the class `EntryLog` and the functions `read_entry` and `location_of`, and then run their check:

# %% tags=["exercise"]
check("bookie", 4, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 5 · The index

# %%
step("bookie", 5)

# %%
XRay(index_bytes(bookie, 5, 1024))

# %% [markdown]
# The header contains the ledger's master key, a flag that says whether the ledger is fenced, and the explicit LAC. After the header, there is an eight-byte slot for each entry id. You must make the name of a new file durable, just like its contents, and also the names of its parent directories.
#
# Write the class `Index`, and then run its check:

# %% tags=["exercise"]
check("bookie", 5, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 6 · The checkpoint and LastLogMark

# %%
step("bookie", 6)

# %% [markdown]
# A checkpoint takes a long time, and the bookie continues to accept adds in the meantime. This is the crash map of labkit's own bookie. Entry 5/1 arrives while the checkpoint is running. None of the cells are red.

# %%
busy = [Add(5, 0), Commit(), Checkpoint((Add(5, 1), Commit()))]
CrashMapView(crash_map(busy))

# %% [markdown]
# **Predict.** Another bookie does the same, but takes the mark only after its flush has finished. Which entries can a crash lose? Give a list of entry ids of ledger 5.

# %%
# solution
predict("lost when the mark is taken late", [1])
# learner
# predict("lost when the mark is taken late", None)  # [...]
# end

# %%
late = crash_map(busy, store_factory=DEFECTS["mark taken after the flush"].store_factory)
compare("lost when the mark is taken late", entries_lost_first(late))

# %% [markdown]
# Write the two functions for the mark, `removable_journals` and the class `Checkpoint`, and then run their check:

# %% tags=["exercise"]
check("bookie", 6, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 7 · Replay

# %%
step("bookie", 7)

# %% [markdown]
# A bookie stores four entries, flushes, stores three more and loses power. Watch what it does when it restarts.

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
# **Predict.** How many journal records did the bookie replay?

# %%
# solution
predict("records replayed", 3)
# learner
# predict("records replayed", None)
# end

# %%
compare("records replayed", records_replayed(died))

# %% [markdown]
# A crash may interrupt the replay itself, so applying a record two or ten times must have the same effect as applying it once.
#
# Write `replay`, and then run its check:

# %% tags=["exercise"]
check("bookie", 7, my_file, seeds=seed_count)

# %% [markdown]
# ## Play with your bookie
#
# Here you choose which message arrives next, and your code reacts. A writer adds one entry to your bookie. You can cut the bookie's power between any two messages. `play` uses each of your parts whose first test passes, and labkit's own for the rest. To play any other `Scenario`, pass it as the second argument. **Record this** gives you your moves as Python code, so that you can repeat them after you change your file.

# %%
# solution
play("bookie", file=my_file)
# learner
# # play("bookie", file=my_file)  # after the first step that passes
# end

# %% [markdown]
# ## Step 8 · A real process
#
# In this step, you do not write any new code. The step starts ZooKeeper and other processes, which cannot run in a browser tab. On your own machine or on Binder, run these commands in a terminal, in the directory of your file:
#
# ```
# labkit workshop bookie        every step, each with 200 seeds
# labkit workshop bookie 8      your bookie as a process of a live cluster
# ```
#
# A client writes to your bookie, and the check kills the bookie with SIGKILL in the middle of the adds and then restarts it. Your bookie must still have everything that it acknowledged, and labkit's shell must be able to read its files. The files have BookKeeper's own formats, so `bookkeeper shell readjournal` and `readlog` can read them, too. You can even start BookKeeper's bookie on your directories. With `labkit bookie --store mybookie.py`, your bookie serves any client.
#
# ## Challenges
#
# The checks do not cover these challenges. Each one is a feature of the real system that your bookie lacks.

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
# <details><summary>Your bookie survives 200 storms. Is it correct?</summary>
#
# You cannot be sure, because the storms are only a sample. Other parts of the check are exhaustive. They try every crash in the scripts and every order of messages in the small scenario. But they cannot find a bug that needs anything else to happen.
# </details>
#
# <details><summary>Why does the cost limit count operations and bytes, not seconds?</summary>
#
# Timings vary from machine to machine and from run to run. The number of disk operations and bytes is the same everywhere. It is also a good measure of cost, because every add has to wait for a sync.
# </details>
#
# <details><summary>Which of your components may lose everything in a crash?</summary>
#
# The memtable. Its entries were already in the journal, after LastLogMark, when they were acknowledged.
# </details>
#
# **Next:** [17 build a client](17-build-a-client.ipynb). After [lesson 08](08-fencing-recovery.ipynb), you can build the other side of the connection.
