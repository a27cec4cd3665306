# %% [markdown]
# # 15 · What else can you build on ledgers?
#
# Pulsar builds topics on ledgers, but BookKeeper was made for something else: the log of the HDFS name node. In this lesson, you study three small systems and break them. Each of them is a real program of about a hundred lines that uses labkit's client:
#
# - a **write-ahead log** for a server with a standby,
# - an **offset store** that records how far each consumer group has read,
# - an **object store** for snapshots of a state machine.
#
# **At the end you can**
# - take over a log from a server that may still be running, without losing any acknowledged edits,
# - store small, frequently changing values in files that can only grow,
# - say when you can delete a ledger that nothing points to,
# - say where Pulsar uses each of the three designs.
#
# **Takes** about 60 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson 08.
#
# > **The rule.** *Store entries in ledgers. List the valid ledgers in a znode of the metadata store, and change this znode only by compare-and-set. Take over a ledger only by recovery.*

# %% tags=["parameters"]
edit_count = 20  # directories that each name node tries to create
records_per_ledger = 4  # commits before the offset store starts a new ledger
chunk_bytes = 100  # bytes of a snapshot in one entry

# %%
from labkit.course.lessons import (
    TAKE_OVER,
    SpaceTime,
    check,
    compare,
    hint,
    newest,
    parameters,
    predict,
    sentences,
    stories,
)

parameters("15", globals())

# %% [markdown]
# ## 1 · A write-ahead log
#
# A **name node** keeps the directories of a file system in memory. It acknowledges a `mkdir` only after the edit has been stored in a ledger. If it dies, a second name node replays the log. It then has every directory whose creation was acknowledged.
#
# But is the first name node really dead? Here, `n1` is alive and well when `n2` takes over. Later, `n3` takes over from `n2` in the same way. The picture shows the end of the ledger that `n1` writes.

# %%
active = stories.name_nodes(edits=edit_count)
SpaceTime(active.trace, ledger=0, entries=(11, 13))

# %%
for name in ("n1", "n2", "n3"):
    answered = [edit for edit in active.answered if edit.node == name]
    ledgers = sorted({edit.ledger_id for edit in answered})
    print(
        f"{name} found {len(active.found[name]):>2} directories, "
        f"acknowledged {len(answered):>2} edits, in ledger {ledgers}"
    )

# %% [markdown]
# **Predict.** `n1` has acknowledged some edits. How many of them are unknown to `n3`?

# %%
# solution
predict("acknowledged by n1, unknown to n3", 0)
# learner
# predict("acknowledged by n1, unknown to n3", None)
# end

# %%
of_n1 = {edit.directory for edit in active.answered if edit.node == "n1"}
compare("acknowledged by n1, unknown to n3", len(of_n1 - active.found["n3"]))

# %%
kinds = "recovery.started", "recovery.ended", "ledger.closed", "ledger.created"
print(sentences(active.trace, *kinds))

# %% [markdown]
# A takeover has five steps, which you will put in order in exercise 1. The program is `labkit/course/runs/uses/edit_log.py`. What if the new name node dies between two steps? In that case, `n3` has to deal with whatever `n2` has left behind:

# %%
dies_after = 3  # number of steps that n2 completes; yours to change: 0 to 5
left = stories.name_nodes(dies_after=dies_after, edits=edit_count)
print(f"n2 died after {dies_after} of {len(TAKE_OVER)} steps")
print(f"n3 found {len(left.found['n3'])} directories; lost: {len(left.lost())}")

# %% [markdown]
# ### Exercise 1: take over
#
# Here are the five steps, in alphabetical order. Put them in an order that loses no acknowledged edits. The other name node continues for as long as it can, and the new one may die after any step. A name node recovers only the **last** ledger in the list, and assumes that all earlier ledgers are closed.

# %%
steps = [
    "create a ledger",
    "open the last ledger with recovery",
    "put the new ledger into the list",
    "read the list of ledgers",
    "replay all ledgers of the list",
]

# %%
# solution
my_order = [steps[i] for i in (3, 1, 4, 0, 2)]
# learner
# my_order = None  # [steps[...], steps[...], ...]
# end

# %% tags=["exercise"]
check("build_on_it.take_over", my_order)

# %% [markdown]
# Stuck? Call `hint("build_on_it.take_over")` for up to three hints. It is tempting to add the new ledger to the list first, to alert the other name node. But the other name node does not read the list:

# %% tags=["refused"]
check("build_on_it.take_over", [steps[i] for i in (3, 0, 2, 1, 4)], must_pass=False)

# %% [markdown]
# **In Pulsar**, this program corresponds to the managed ledger, and the name node corresponds to a broker. The broker that loads a topic reads the topic's chain of ledgers, recovers the last one, creates a new one and stores the chain by compare-and-set ([lesson 11](11-topics.ipynb)). It does not need to replay anything, because it does not keep the log's contents in memory.
#
# ## 2 · An offset store
#
# Consumer groups repeatedly commit how far they have read. So the store makes many small changes to a few values. Each commit is an entry. To find out the offsets, a client reads the ledger from the start.

# %%
commits = [("billing", 5), ("audit", 3), ("billing", 9), ("billing", 4), ("stock", 7)]
stored = stories.offsets(commits, dies_after=len(commits))
for number, (group, offset) in enumerate(commits):
    print(f"entry {number}: {group:<8} {offset}")

# %% [markdown]
# **Predict.** The client dies after the last commit, and another one opens the store. At which offset does `billing` continue?

# %%
# solution
predict("billing continues at", 4)
# learner
# predict("billing continues at", None)
# end

# %%
compare("billing continues at", stored.found["billing"])

# %% [markdown]
# A group may go back to reread messages, so the last commit counts, even if its offset is smaller than that of an earlier commit.
#
# ### Exercise 2: the newest offsets
#
# `records` contains all records of a ledger in the order in which they were written. Each record is a group and an offset. If the offset is `None`, the record removes the group. Return a dictionary that maps groups to offsets. The store uses your function, and the check lets its client die after each commit.


# %%
def my_newest(records):
    # solution
    offsets = {}
    for group, offset in records:
        offsets.pop(group, None)
        if offset is not None:
            offsets[group] = offset
    return offsets
    # learner
    # raise NotImplementedError  # for [("billing", 5), ("audit", None)] return {"billing": 5}
    # end


# %% tags=["exercise"]
check("build_on_it.offsets", my_newest)

# %% [markdown]
# ### The log must not grow forever
#
# You cannot truncate a ledger. Instead, the store starts a new ledger with the newest offset of each group, adds the new ledger to the list, and deletes the old one.
#
# **Predict.** Two groups make twenty commits altogether, and the store starts a new ledger after every `records_per_ledger` commits. How many ledgers exist at the end?

# %%
# solution
predict("ledgers at the end", 1)
# learner
# predict("ledgers at the end", None)
# end

# %%
many = [(("billing", "audit")[number % 2], number) for number in range(20)]
rolled = stories.offsets(many, newest, records_per_ledger=records_per_ledger)
kinds = [event.kind for event in rolled.trace.events]
print("created:", kinds.count("ledger.created"), " deleted:", kinds.count("ledger.deleted"))
print("found:  ", rolled.found)
compare("ledgers at the end", rolled.ledger_count)

# %% [markdown]
# The store first copies the newest offsets, then adds the new ledger to the list, and then deletes the old one. With this order, a crash between two steps can at worst leave behind a ledger that is not in the list.
#
# **In Pulsar**, a subscription's cursor is stored in the same way. Each change to the mark-delete position is an entry in the cursor's own ledger, and only the last entry counts. After 50,000 entries (`managedLedgerCursorMaxEntriesPerLedger`) or four hours, the cursor starts a new ledger, and the old one is deleted. Unlike this store, a broker writes at most one position per second, so a few messages may be redelivered after a crash.
#
# ## 3 · An object store
#
# A state machine writes snapshots of its state so that its log can be truncated. A snapshot can be larger than the maximum entry size, so the store splits it into chunks and writes them to a ledger of their own. A znode with the snapshot's name points to the ledger:

# %%
shots = stories.snapshots(chunk_bytes=chunk_bytes)
print(sentences(shots.trace, "ledger.created", "ledger.closed", "ledger.deleted"))

# %% [markdown]
# Clients `p1` to `p4` each stored a version of the same snapshot while `c` was looking for garbage. `p2` and `p3` worked at the same time, and both wrote version 2.
#
# **Predict.** Each client tries to make the name point to its own ledger. How many of the four clients succeed?

# %%
# solution
predict("clients whose ledger was named", 3)
# learner
# predict("clients whose ledger was named", None)
# end

# %%
for name, result in shots.stored.items():
    print(name, f"stored ledger {result}" if isinstance(result, int) else type(result).__name__)
named = [result for result in shots.stored.values() if isinstance(result, int)]
compare("clients whose ledger was named", len(named))

# %% [markdown]
# A name always points to a closed ledger, so a reader always gets a complete snapshot, never part of a new one.
#
# ### Exercise 3: what is garbage?
#
# A client that dies leaves behind a ledger without a name that points to it. But a client that is still writing also has such a ledger. Each ledger's metadata contains the name and the version of its snapshot. You are given `ledgers`, a list of `(ledger_id, name, version)`, and `named`, which maps each name to the `(version, ledger_id)` that is currently in its znode. Return the ids of the ledgers that can be deleted. A client reads the current version and writes the next one. The compare-and-set fails if the znode has changed in the meantime.


# %%
def my_removable(ledgers, named):
    # solution
    garbage = []
    for ledger_id, name, version in ledgers:
        if name in named and version <= named[name][0] and ledger_id != named[name][1]:
            garbage.append(ledger_id)
    return garbage
    # learner
    # raise NotImplementedError  # for [(4, "names", 1)], {"names": (2, 7)} return [4]
    # end


# %% tags=["exercise"]
check("build_on_it.garbage", my_removable)

# %% [markdown]
# A ledger is not garbage just because nothing points to it:


# %% tags=["refused"]
def nothing_points_to_it(ledgers, named):
    in_use = {ledger_id for version, ledger_id in named.values()}
    return [ledger_id for ledger_id, name, version in ledgers if ledger_id not in in_use]


check("build_on_it.garbage", nothing_points_to_it, must_pass=False)

# %% [markdown]
# **In Pulsar**, three kinds of data are stored in this way:
#
# - the schemas of a topic: a znode lists the ledger and the entry of each version;
# - a **compacted topic**, whose ledger contains the newest message for each key. The ledger's id is stored in the properties of the cursor `__compaction`;
# - function packages.
#
# A compacted topic deletes its old ledger once the cursor refers to the new one. Schemas keep all their versions.

# %% [markdown]
# ## What the real system does
#
# | here | there |
# | --- | --- |
# | `edit_log.NameNode` | HDFS's `BookKeeperJournalManager`, the first user of BookKeeper (HDFS now has its own quorum journal); `ManagedLedgerImpl` in Pulsar |
# | `ledger_list.LedgerList` | `ManagedLedgerInfo` in `MetaStoreImpl`, changed by the znode's version |
# | `offset_store.OffsetStore` | `ManagedCursorImpl`: `PositionInfo` in the cursor's ledger, `ManagedCursorInfo` in a znode |
# | `snapshot_store.SnapshotStore` | `BookkeeperSchemaStorage`, `CompactedTopicImpl`; `BookKeeperPackagesStorage` |
# | finds garbage by version | all of these create a ledger before a znode refers to it; after a crash in between, the ledger remains until an operator finds it |
#
# ## Questions
#
# <details><summary>Two name nodes take over at the same moment. Can both be active?</summary>
#
# No. Both may recover the same ledger, and both may create a new one. But the list is changed by compare-and-set, so only one of them can add its ledger. The other name node remains on standby, and its ledger is garbage.
# </details>
#
# <details><summary>A name node loses its connection to all bookies for a minute. Is it still active?</summary>
#
# Its adds fail or wait, so it cannot acknowledge any edits. It learns later whether another name node has taken over: when a bookie rejects an add because of the fence, or when it tries to change the list.
# </details>
#
# <details><summary>Why does the offset store not simply overwrite a value in the metadata store?</summary>
#
# It could, if there were only a few groups and commits. But ZooKeeper processes all changes in the cluster one after the other and keeps everything in memory. Bookies handle thousands of adds per second, each on its own disks.
# </details>
#
# <details><summary>A client is reading a snapshot when a new version is published and the old ledger is deleted. What happens?</summary>
#
# The bookies keep the entries until their next garbage collection, so the reader can often finish anyway. Otherwise it gets an error, rereads the name, and finds the new version.
# </details>
#
# **Back to** [the tour](00-tour.ipynb), or to the map of the course in `docs/course.md`.
