# %% [markdown]
# # 15 · What else can be built on it?
#
# A topic is one thing that can be built on ledgers. BookKeeper was made for another one: the log of HDFS's name node. This lesson builds three small systems, each a real program of about a hundred lines on labkit's client, and breaks them:
#
# - a **write-ahead log** for a server with a standby,
# - an **offset store**: how far each consumer group has read,
# - an **object store** for snapshots of a state machine.
#
# **At the end you can**
# - take a log over from a server that may be alive, without losing an answer,
# - keep small, changing values in files that can only grow,
# - say when a ledger that nothing points to may be deleted,
# - name the place in Pulsar where each of the three is at work.
#
# **Takes** about 60 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 08.
#
# > **The rule.** *Entries go to a ledger; a node in the metadata store says which ledgers count, and is changed by compare-and-set; a ledger is taken over by recovery alone.*

# %% tags=["parameters"]
edit_count = 20  # directories that each name node wants to make
records_per_ledger = 4  # commits, then the offset store begins a new ledger
chunk_bytes = 100  # of a snapshot, in one entry

# %%
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.broken_runs import sentences
from labkit.course.runs.uses import stories
from labkit.course.runs.uses.edit_log import TAKE_OVER
from labkit.course.runs.uses.offset_store import newest
from labkit.course.runs.uses.snapshot_store import removable
from labkit.views.widgets import SpaceTime

parameters("15", globals())

# %% [markdown]
# ## 1 · A write-ahead log
#
# A **name node** keeps the directories of a file system in memory. Before it answers `mkdir`, the edit is in a ledger. If it dies, a second name node replays the log, and has every directory that was ever answered.
#
# But has it died? Here `n1` is alive and well when `n2` takes over, and `n3` later does the same to `n2`. The picture shows the end of the ledger that `n1` writes.

# %%
active = stories.name_nodes(edits=edit_count)
SpaceTime(active.trace, ledger=0, entries=(11, 13))

# %%
for name in ("n1", "n2", "n3"):
    answered = [edit for edit in active.answered if edit.node == name]
    ledgers = sorted({edit.ledger_id for edit in answered})
    print(
        f"{name} found {len(active.found[name]):>2} directories, "
        f"answered {len(answered):>2} edits, in ledger {ledgers}"
    )

# %% [markdown]
# **Predict.** Of the edits that `n1` has answered, how many does `n3` not know?

# %%
# solution
predict("answered by n1, unknown to n3", 0)
# learner
# predict("answered by n1, unknown to n3", None)
# end

# %%
of_n1 = {edit.directory for edit in active.answered if edit.node == "n1"}
compare("answered by n1, unknown to n3", len(of_n1 - active.found["n3"]))

# %%
kinds = "recovery.started", "recovery.ended", "ledger.closed", "ledger.created"
print(sentences(active.trace, *kinds))

# %% [markdown]
# A take-over has five steps: read the list of ledgers, recover the last one, replay all, create a ledger, put it into the list. The program is `labkit/course/runs/uses/edit_log.py`. What if the new name node dies on the way? Then `n3` begins from what it left:

# %%
dies_after = 3  # steps of n2; yours to change: 0 to 5
left = stories.name_nodes(dies_after=dies_after, edits=edit_count)
print("n2 did:", *TAKE_OVER[:dies_after], sep="\n  ")
print(f"n3 found {len(left.found['n3'])} directories; lost: {len(left.lost())}")

# %% [markdown]
# ### Exercise 1: take it over
#
# The five steps, in alphabetical order. Put them into an order that loses no answered edit, although the other name node goes on as long as it can, and the new one may die after every step. Only the **last** ledger of the list is recovered; those before it are taken as closed.

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
# Stuck? `hint("build_on_it.take_over")` gives three hints. It is tempting to announce the new ledger first, so that the other name node notices. It does not look:

# %% tags=["refused"]
check("build_on_it.take_over", [steps[i] for i in (3, 0, 2, 1, 4)], must_pass=False)

# %% [markdown]
# **In Pulsar** this program is the managed ledger, and the name node is a broker. The broker that opens a topic reads the topic's chain of ledgers, recovers the last one, creates a new one and stores the chain by compare-and-set ([lesson 11](11-topics.ipynb)). Nothing is replayed: consumers read the messages where they are.
#
# ## 2 · An offset store
#
# Consumer groups commit how far they have read, again and again: many small changes of few values. Each commit is an entry. A client that wants to know the offsets reads the ledger from its beginning.

# %%
commits = [("billing", 5), ("audit", 3), ("billing", 9), ("billing", 4), ("stock", 7)]
stored = stories.offsets(commits, dies_after=len(commits))
for number, (group, offset) in enumerate(commits):
    print(f"entry {number}: {group:<8} {offset}")

# %% [markdown]
# **Predict.** The client dies after the last commit, and another one opens the store. At which offset does `billing` go on?

# %%
# solution
predict("billing goes on at", 4)
# learner
# predict("billing goes on at", None)
# end

# %%
compare("billing goes on at", stored.found["billing"])

# %% [markdown]
# A group may go back, to read again. The log knows what was said last; it does not know what was meant.
#
# ### Exercise 2: the newest offsets
#
# `records` are all records of a ledger in the order in which they were written, each a group and an offset. `None` in the place of the offset removes the group. Return a table: group to offset. Your function goes into the store, whose client dies after each commit.


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
    # raise NotImplementedError  # [("billing", 5), ("audit", None)] -> {"billing": 5}
    # end


# %% tags=["exercise"]
check("build_on_it.offsets", my_newest)

# %% [markdown]
# ### It must not grow for ever
#
# A ledger cannot be shortened. But a new ledger can begin with the newest offset of each group; once the list names it, the old one is deleted.
#
# **Predict.** Twenty commits of two groups, and a new ledger after every few of them. How many ledgers are there at the end?

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
# Copy the newest offsets, name the new ledger, delete the old one: in this order, and a crash between any two costs at most a ledger that no list names.
#
# **In Pulsar** a subscription's cursor is kept like this: each change of the mark-delete position is an entry in the cursor's own ledger, and only the last one counts. After 50,000 entries (`managedLedgerCursorMaxEntriesPerLedger`) or four hours the next ledger begins, and the old one is deleted. Unlike this store, a broker writes at most one position a second: a few messages may come again after a crash.
#
# ## 3 · An object store
#
# A state machine writes snapshots of its state, so that its log can be cut. A snapshot is larger than an entry may be, so it is a ledger of chunks, and a node has the name:

# %%
shots = stories.snapshots(chunk_bytes=chunk_bytes)
print(sentences(shots.trace, "ledger.created", "ledger.closed", "ledger.deleted"))

# %% [markdown]
# Clients `p1` to `p4` each stored a version of the same snapshot; `c` looked for garbage all the time. `p2` and `p3` worked at the same time, and both made version 2.
#
# **Predict.** How many of the four got their ledger named?

# %%
# solution
predict("clients whose ledger got the name", 3)
# learner
# predict("clients whose ledger got the name", None)
# end

# %%
for name, result in shots.stored.items():
    print(name, f"stored ledger {result}" if isinstance(result, int) else type(result).__name__)
named = [result for result in shots.stored.values() if isinstance(result, int)]
compare("clients whose ledger got the name", len(named))

# %% [markdown]
# A reader follows the name, and the named ledger is closed. So it gets a snapshot whole, never half of a new one.
#
# ### Exercise 3: what is garbage?
#
# A client that dies leaves a ledger that no name points to. But so does one that is still writing. Each ledger carries the name and the version of its snapshot in its metadata. You get `ledgers`, a list of `(ledger_id, name, version)`, and `named`: for each name the `(version, ledger_id)` that its node has now. Return the ids of those that may be deleted. A client makes the version after the one that it has read; compare-and-set refuses it if the node has moved.


# %%
def my_removable(ledgers, named):
    # solution
    garbage = []
    for ledger_id, name, version in ledgers:
        if name in named and version <= named[name][0] and ledger_id != named[name][1]:
            garbage.append(ledger_id)
    return garbage
    # learner
    # raise NotImplementedError  # ([(4, "names", 1)], {"names": (2, 7)}) -> [4]
    # end


# %% tags=["exercise"]
check("build_on_it.garbage", my_removable)

# %% [markdown]
# "Nothing points to it" is not enough:


# %% tags=["refused"]
def nothing_points_to_it(ledgers, named):
    in_use = {ledger_id for version, ledger_id in named.values()}
    return [ledger_id for ledger_id, name, version in ledgers if ledger_id not in in_use]


check("build_on_it.garbage", nothing_points_to_it, must_pass=False)

# %% [markdown]
# **In Pulsar** three things are stored like this: the schemas of a topic, where a node names the ledger and the entry of each version; a **compacted topic**, whose ledger has the newest message of each key and is named by the properties of the cursor `__compaction`; and the packages of functions. The compacted topic deletes its old ledger after the new one has its name; schemas keep all their versions.

# %% [markdown]
# ## What the real system does
#
# | here | there |
# | --- | --- |
# | `edit_log.NameNode` | HDFS's `BookKeeperJournalManager`, the first user of BookKeeper (HDFS now has its own quorum journal); `ManagedLedgerImpl` in Pulsar |
# | `ledger_list.LedgerList` | `ManagedLedgerInfo` in `MetaStoreImpl`, changed by the node's version |
# | `offset_store.OffsetStore` | `ManagedCursorImpl`: `PositionInfo` in the cursor's ledger, `ManagedCursorInfo` in a node |
# | `snapshot_store.SnapshotStore` | `BookkeeperSchemaStorage`, `CompactedTopicImpl`; `BookKeeperPackagesStorage` |
# | garbage by version | each creates its ledger before a node names it: a crash in between leaves a ledger that no node names, and it stays until an operator finds it |
#
# ## Questions
#
# <details><summary>Two name nodes take over at the same moment. Can both be active?</summary>
#
# Both may recover the same ledger, and each may create one. But the list is changed by compare-and-set, so one of them gets its ledger in and the other stays on standby. Its ledger is garbage.
# </details>
#
# <details><summary>A name node loses its connection to all bookies for a minute. Is it still active?</summary>
#
# Its add fails or waits, and it answers nothing. Whether another name node has taken over, it learns from the fence, or when it tries to change the list.
# </details>
#
# <details><summary>Why does the offset store not simply overwrite a value in the metadata store?</summary>
#
# It could, for a few groups and few commits. ZooKeeper orders all changes of the cluster one after the other and keeps everything in memory; bookies take thousands of adds a second, each on its own disks.
# </details>
#
# <details><summary>A reader reads a snapshot while a new version gets the name, and the old ledger is deleted. What happens?</summary>
#
# The bookies keep the entries until they collect garbage, so the reader often gets them all the same. If not, it gets an error, reads the name again, and finds the new version.
# </details>
#
# **Back to** [the tour](00-tour.ipynb), or to the map of the course in `docs/course.md`.
