# %% [markdown]
# # 05 · Which bookies store an entry, and who knows?
#
# A **ledger** is spread over several bookies, and each of its entries is stored on some of them. Later, another client wants to read the ledger. It may be a reader that has never talked to the writer, or a client that closes the ledger after the writer has died. Which bookies should this client ask? And if some of them do not respond, what can it conclude from the responses of the others?
#
# **At the end you can**
# - read a ledger's metadata, byte by byte, and say what it does *not* contain,
# - compute which bookies store a given entry,
# - say how many bookies can fail for any E, Qw and Qa, and exactly what is lost if more of them fail,
# - decide when you have heard from enough bookies.
#
# **Takes** about 75 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson 01.
#
# > **The rule.** *A formula, not a list, determines which Qw bookies of the ensemble store an entry. All clients use the same formula.* The indices of these bookies in the ensemble are the entry's **write set**.
#
# Everything in this lesson runs in the simulated world, with the real client and bookie code but without sockets or Java.

# %% tags=["parameters"]
ensemble_size = 5  # E: bookies that the ledger is spread over
write_quorum = 3  # Qw: bookies that store each entry
ack_quorum = 2  # Qa: acknowledgements that confirm an entry
entry_count = 8

# %%
from labkit.course.lessons import (
    LAYOUTS,
    Cluster,
    Crash,
    EnsembleHistory,
    On,
    Scenario,
    Stripes,
    Write,
    XRay,
    check,
    compare,
    ensemble_of,
    failures,
    failures_survived,
    hint,
    ledger_paths,
    ledgers_created,
    parameters,
    predict,
    record,
    result_of_failures,
    run,
    sent_to,
    write_set,
    znodes_of,
)

parameters("05", globals())
sizes = ensemble_size, write_quorum, ack_quorum

# %% [markdown]
# ## 1 · The picture
#
# Each row is an entry, and each column is a bookie. Change the numbers: E is the number of bookies, Qw is the number of copies of each entry, and Qa is the number of acknowledgements that the writer waits for. Click the heading of a bookie to make it fail.

# %%
Stripes(*sizes, entries=entry_count)

# %% [markdown]
# The stripe moves by one bookie with each entry. So if E is larger than Qw, each bookie stores only a fraction Qw / E of the entries, and all bookies share the work.

# %% [markdown]
# **Do you want to save your predictions?** Normally, labkit forgets your predictions and the hints you asked for when the kernel stops. If you turn on this switch, labkit saves them in a file next to this notebook. The switch applies to all lessons in this folder. You can read the file and hand it in; nothing is sent anywhere. The switch is off by default. Turning it off again deletes the file.

# %%
record()

# %% [markdown]
# ## 2 · Who knows?
#
# A writer creates a ledger and adds entries. Then you look at the contents of the metadata store. The metadata store is ZooKeeper, which keeps data in **znodes**. Like files and directories, znodes form a tree.

# %%
write = Write(0, entry_count, *sizes, every_ms=50)
scenario = Scenario(Cluster(bookies=ensemble_size + 1), (write,))
moments = [On("lac.advanced", nth=entry_count), On("ledger.closed")]
during, after = znodes_of(scenario, moments)
during

# %% [markdown]
# - `available` has a znode for each bookie that accepts writes. The znode disappears when the bookie's session expires.
# - `cookies` records which directories belong to which bookie.
# - `LAYOUT` determines how ledger ids are mapped to paths: here, ledger 0 is at `00/0000/L0000`.
# - `L0000` is the ledger's metadata. These are its bytes:

# %%
XRay(during.piece(), width=8)

# %% [markdown]
# The metadata consists of three numbers (E, Qw, Qa), a state, and one **segment**: *from entry 0 on, these bookies, in this order*.
#
# **Predict.** How many times did this znode change while the entries were added? A znode's version counts its changes.

# %%
# solution
predict("changes while entries were added", 0)
# learner
# predict("changes while entries were added", None)
# end

# %%
compare("changes while entries were added", during.ledger()[1])

# %% [markdown]
# All entries have been confirmed, but the metadata does not mention a single one. So adds put no load on the metadata store, no matter how many of them there are. What changes when the ledger is closed?

# %%
for moment in (during, after):
    metadata, version = moment.ledger()
    end = f"last_entry_id {metadata.last_entry_id:>2}, length {metadata.length:>3}"
    print(f"version {version}: {metadata.state.name:<6}  {end}")

# %% [markdown]
# While the ledger is open, `last_entry_id` has no meaning. Only the writer knows where the ledger ends. Each bookie sees only its own entries. Section 5 and [lesson 08](08-fencing-recovery.ipynb) are about this problem.
#
# A **bookie** knows even less than the metadata store. It has entries, but it does not know E, Qw and Qa, or which other bookies have copies.

# %% [markdown]
# ### How ledger ids are mapped to paths
#
# A cluster has one **ledger manager**. You choose it when you set up the cluster, and `LAYOUT` records your choice. The cell below shows the paths of three ledgers under another ledger manager. Change the name and run the cell again.

# %%
layout = "flat"  # yours to change: "hierarchical", "legacyhierarchical", "longhierarchical"
print("\n".join(ledger_paths(layout)))

# %% [markdown]
# (With `flat`, ledger ids are ZooKeeper's sequence numbers for the children of the znode that contains the ledgers. Other children of this znode have already used up some numbers, so the first ledger here does not have id 0.)
#
# **Predict.** With `flat`, all ledgers are children of one znode, and the response that lists them must fit into one megabyte. With `hierarchical`, what is the maximum number of ledgers below one znode? The path of ledger 12345 is `00/0001/L2345`.

# %%
# solution
predict("ledgers below one node", 10_000)
# learner
# predict("ledgers below one node", None)
# end

# %%
parents = {LAYOUTS["hierarchical"].path_of(n).rpartition("/")[0] for n in range(50_000)}
compare("ledgers below one node", 50_000 // len(parents))

# %% [markdown]
# ## 3 · The write set
#
# **Predict.** At which indices of the ensemble is the *last* of these entries, `entry_count - 1`, stored? Give a list of numbers, in the order of the write set.

# %%
# solution
last = entry_count - 1
predict("write set of the last entry", [(last + i) % ensemble_size for i in range(write_quorum)])
# learner
# predict("write set of the last entry", None)
# end

# %%
trace = run(scenario)
sent = sent_to(trace)
for entry_id, bookies in sent.items():
    print(f"entry {entry_id} was sent to {', '.join(bookies)}")
compare("write set of the last entry", [int(name[1:]) for name in sent[entry_count - 1]])

# %% [markdown]
# ### Your turn: the write set
#
# Compute the write set of an entry. Your function replaces labkit's own in the client: the writer uses it to send entries, and readers and recovery use it to look entries up. During the check, bookies crash, links go down and messages get lost. At the end, another client looks up every entry with BookKeeper's rule.


# %%
def my_write_set(entry_id, ensemble_size, write_quorum):
    # solution
    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))
    # learner
    # raise NotImplementedError  # return a tuple of indices
    # end


# %% tags=["exercise"]
check("quorums.write_set", my_write_set)

# %% [markdown]
# *Stuck? Run `hint("quorums.write_set")` in a new cell. There are three hints, from a nudge to nearly the full answer.*
#
# The following rule also spreads the entries evenly, but no other client uses it:


# %% tags=["refused"]
def next_free_indices(entry_id, ensemble_size, write_quorum):
    first = entry_id * write_quorum
    return tuple((first + i) % ensemble_size for i in range(write_quorum))


check("quorums.write_set", next_free_indices, must_pass=False)

# %% [markdown]
# So entry *e* is stored on the bookies at the indices *(e + i) mod E*, for *i* from 0 to *Qw* − 1. Every BookKeeper client uses this formula, so nobody has to store a list of entries.
#
# ## 4 · What each number tolerates
#
# An add is confirmed by acknowledgements from *any* Qa of the Qw bookies, and nothing records which bookies sent them. So when bookies fail, assume the worst: the bookies that fail are exactly the ones that have the entry.
#
# **Predict.** How many bookies, *no matter which ones*, can fail without putting any confirmed entry at risk?

# %%
# solution
predict("how many bookies can fail safely", ack_quorum - 1)
# learner
# predict("how many bookies can fail safely", None)
# end

# %%
compare("how many bookies can fail safely", failures_survived(*sizes))

# %% [markdown]
# If one more bookie fails and the failed bookies are neighbours, an entry may be lost:

# %%
Stripes(*sizes, entries=entry_count, failed=range(ack_quorum))

# %% [markdown]
# The picture says *perhaps lost*, not *lost*, because the writer sends every entry to all Qw bookies and normally all of them store it. But the protocol does not guarantee that they do.
#
# What about the writer? It needs Qa acknowledgements from each write set. This cluster has no spare bookies, so the writer cannot replace a failed bookie. After the second entry has been confirmed, neighbouring bookies of the ensemble fail. (With `window=1`, the writer waits until an entry is confirmed before it sends the next one.)

# %%
for count in (write_quorum - ack_quorum, write_quorum - ack_quorum + 1):
    print(f"{count} of {ensemble_size} bookies fail: {result_of_failures(count, *sizes)}")

# %% [markdown]
# | If this many bookies fail, no matter which ones, | the following still holds |
# | --- | --- |
# | Qa − 1 | every confirmed entry survives, and recovery can find the end of the ledger |
# | Qw − Qa | adds are confirmed without replacing any bookie |
# | Qw − 1 | an entry survives if all Qw bookies of its write set stored it |
#
# Recovery also writes the last entries back before it closes the ledger. To do so, it needs Qa bookies for each write set. These can be the ledger's own bookies or spare ones.
#
# The first two rows conflict: a large Qa protects your data, while a small Qa tolerates slow bookies. A large E makes the ledger faster but *less* safe. With more bookies than Qw, there are more combinations of bookies whose failure loses an entry.
#
# ### Impossible numbers
#
# **Predict.** A client asks for a ledger with E = 3, Qw = 2, Qa = 3. Is the ledger `"created"`, is the request `"refused"`, or does the first add `"wait"` forever?

# %%
# solution
predict("a ledger with Qa above Qw", "refused")
# learner
# predict("a ledger with Qa above Qw", None)
# end

# %%
asked_for = 3, 2, 3  # E, Qw, Qa: yours to change
impossible = run(Scenario(Cluster(3), (Write(0, 1, *asked_for),), limit_s=5))
print("\n".join(failures(impossible)) or "confirmed")
compare("a ledger with Qa above Qw", "created" if ledgers_created(impossible) else "refused")

# %% [markdown]
# **E ≥ Qw ≥ Qa ≥ 1.** An entry is sent to Qw bookies, so no more than Qw can acknowledge it. With a larger Qa, an add would wait forever. The ensemble must also contain at least Qw different bookies.
#
# Valid numbers are not enough. When a client creates a ledger, it chooses the bookies of the first segment from the bookies that accept writes. Here the cluster has three bookies, and you ask for a ledger on more than three:

# %%
bookies_wanted = 4  # yours to change: 3, 5
too_few = run(Scenario(Cluster(3), (Write(0, 1, bookies_wanted, 3, 2),), limit_s=5))
print("\n".join(failures(too_few)) or "confirmed")
print("ledgers created:", ledgers_created(too_few))

# %% [markdown]
# The client raises `BKNotEnoughBookiesException` before it allocates a ledger id, so it leaves nothing behind. It does not wait, because another bookie may never join.
# %% [markdown]
# ## 5 · When are responses enough?
#
# The writer has died. You ask all E bookies for their newest entries, and responses arrive one by one. Some bookies do not respond. When can you be sure that you have not missed a confirmed entry?
#
# `known` contains the ensemble indices of all bookies that responded. *No such entry* counts as a response, but an error does not. The check uses your function in the real client. A reader that wants to know how far a ledger is confirmed stops waiting as soon as your function returns `True`.


# %%
def my_is_covered(known, ensemble_size, write_quorum, ack_quorum):
    # solution
    for first in range(ensemble_size):
        silent = 0
        for index in my_write_set(first, ensemble_size, write_quorum):
            silent += index not in known
        if silent >= ack_quorum:
            return False
    return True
    # learner
    # raise NotImplementedError  # return True or False
    # end


# %% tags=["exercise"]
check("quorums.coverage", my_is_covered)

# %% [markdown]
# Many other systems wait for a majority. In BookKeeper, that rule is wrong:


# %% tags=["refused"]
def majority(known, ensemble_size, write_quorum, ack_quorum):
    return len(known) > ensemble_size // 2


check("quorums.coverage", majority, must_pass=False)

# %% [markdown]
# ## 6 · When is an entry lost?
#
# Now consider a single entry. You ask the Qw bookies of its write set. If one of them returns the entry, you have found it. Otherwise, `denied` bookies have responded with *no such entry*, `silent` bookies have failed, and the rest have not responded yet. At which point is it certain that the entry was never confirmed, so that you can close the ledger before it?
#
# Your function makes this decision in real recoveries. If it returns `True` too early, recovery cuts off a confirmed entry. If it returns `True` too late, recovery cannot close the ledger.


# %%
def my_is_lost(denied, silent, write_quorum, ack_quorum):
    # solution
    return write_quorum - denied < ack_quorum
    # learner
    # raise NotImplementedError  # return True or False
    # end


# %% tags=["exercise"]
check("quorums.lost", my_is_lost)

# %% [markdown]
# It is tempting to treat a failed bookie like a bookie that does not have the entry. BookKeeper once had a bug of this kind (#2908). A bookie that could not read its disk responded with *no such entry*, and recovery truncated ledgers.


# %% tags=["refused"]
def silence_is_denial(denied, silent, write_quorum, ack_quorum):
    return denied + silent > write_quorum - ack_quorum


check("quorums.lost", silence_is_denial, must_pass=False)

# %% [markdown]
# You will need your three functions again. In [lesson 06](06-lac.ipynb), you start to write a client, and each of them becomes a part of it.
#
# ## 7 · When the ensemble changes
#
# Now a bookie fails, and a spare one is available. This is the only case in which the writer changes the metadata while it adds entries: it starts a new **segment** after the last confirmed entry.

# %%
crash = Crash("b1", when=On("lac.advanced", nth=max(entry_count // 2, 1)))
EnsembleHistory(run(scenario.with_fault(crash)))

# %% [markdown]
# Each row is a moment in time, and each column is a range of entries. The more copies of a range are durable, the fuller its box is. The old segment does not change. Its entries stay where they are, even though one of their bookies is gone. [Lesson 07](07-ensemble-change.ipynb) shows how the change works, and [lesson 09](09-re-replication.ipynb) shows who restores the missing copies.
#
# ### Does striping start over in a new segment?
#
# Suppose a figure shows a ledger on bookies 1 to 4, with three copies of each message and an ensemble that starts at entry 1. Entry 1 is on bookies 1, 2, 3; entry 2 is on 2, 3, 4; entry 3 is on 3, 4, 1. You could read the figure in two ways:

# %%
figure_ensemble = 1, 2, 3, 4  # yours to change: the bookies, in the order of the metadata
begins_at = 1
print("entry   counted from the segment   by the absolute entry id")
for entry_id in range(begins_at, begins_at + 4):
    counted, absolute = (
        [figure_ensemble[index] for index in write_set(number, 4, 3)]
        for number in (entry_id - begins_at, entry_id)
    )
    print(f"{entry_id:>5}   {counted!s:<24}   {absolute}")

# %% [markdown]
# BookKeeper follows the right-hand column. Striping uses the *absolute* entry id and does not start over in a new segment.
#
# **Predict.** In which order must the metadata list the bookies so that the right-hand column matches the figure? Give a tuple.

# %%
# solution
predict("the figure's ensemble", (4, 1, 2, 3))
# learner
# predict("the figure's ensemble", None)
# end

# %%
figure = {1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 4, 1]}
compare("the figure's ensemble", ensemble_of(figure))

# %% [markdown]
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | metadata v3: a line of text, a length, protobuf | the same bytes (`LedgerMetadataSerDe`); it can also read older versions |
# | `LAYOUT`, four ways to map ids to paths | the same; `HierarchicalLedgerManagerFactory` is the default |
# | `striping.write_set` | `RoundRobinDistributionSchedule.getWriteSet` |
# | `quorum.is_covered` | `RoundRobinDistributionSchedule.RRQuorumCoverageSet.checkCovered` |
# | a writer continues as long as Qa acknowledgements are possible | it fails with `BKNotEnoughBookiesException` if a failed bookie cannot be replaced, unless `delayEnsembleChange=true` |
# | E, Qw, Qa of `create_ledger` | `createLedger(ensSize, writeQuorumSize, ackQuorumSize, …)`; in Pulsar `managedLedgerDefaultEnsembleSize`, `…WriteQuorum`, `…AckQuorum`, all 2 by default |
#
# Known issues:
# - **#2908**: a bookie with a damaged entry log responded with *no such entry*. Recovery believed the bookie, and closed ledgers before entries that existed.
# - **#3952** asks why a reader gives up even though one bookie responded successfully. The reader gives up because one response says nothing about entries on the other bookies (section 5).
# - **#1390**: a write fails on the third bookie after the other two have acknowledged it. The entry is then one copy short, and nobody notices until the auditor checks the ledger ([lesson 09](09-re-replication.ipynb)).

# %% [markdown]
# ## Questions
#
# <details><summary>Why is the list of an entry's bookies not stored with the entry?</summary>
#
# A reader would have to find the entry before it could find out where the entry is stored. The formula needs only the entry id, two numbers, and one list of bookies for the whole segment. The client keeps all of this in memory.
# </details>
#
# <details><summary>What are the advantages and disadvantages of E = 3, Qw = 3, Qa = 3?</summary>
#
# A confirmed entry survives the loss of any two bookies. But a single bookie that is slow or down blocks every add until it is replaced.
# </details>
#
# <details><summary>A ledger has E = 5, Qw = 2, Qa = 2, and two bookies are lost for good. Which entries are lost?</summary>
#
# If the two bookies are neighbours in the ensemble, you lose every entry whose write set consists of exactly these two. That is one entry in five. Otherwise you lose nothing. Try it in the picture.
# </details>
#
# <details><summary>Why does "no such entry" count as a response in section 5, even though it reports no entry?</summary>
#
# The question is which bookies could have acknowledged an entry that you do not know about. A bookie that tells you its newest entry, or that it has no entries, cannot be one of them. A bookie that returns an error can.
# </details>
#
# <details><summary>In section 6, why does recovery keep an entry if it finds a single copy, even if Qa is larger than one?</summary>
#
# The entry may have been confirmed, and nothing rules that out. So recovery keeps it and writes it back before it continues. It does no harm to keep an entry that was never confirmed.
# </details>
#
# **Next:** [06 LastAddConfirmed](06-lac.ipynb). The entries are stored. Which ones can a reader see?
