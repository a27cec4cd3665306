# %% [markdown]
# # 05 · Where is an entry, and who knows?
#
# A **ledger** is stored on several bookies. Each entry goes to some of them. Later another client wants to read it: a reader that never spoke to the writer, or a client that closes the ledger after the writer died. Which bookies should it ask? And if some do not answer, what do the others prove?
#
# **At the end you can**
# - read a ledger's metadata, byte by byte, and say what is *not* in it,
# - compute the bookies of any entry,
# - say for any E, Qw and Qa how many bookies may fail, and what exactly is lost when more do,
# - decide when the answers of some bookies are enough.
#
# **Takes** about 75 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 01.
#
# > **The rule.** *Entry* e *lies on the Qw bookies at the places* (e + i) mod E, i = 0 … Qw − 1, *of its segment's ensemble. No list of entries is stored anywhere.*
#
# Everything here runs in the simulated world: real client, real bookies, no sockets and no Java.

# %% tags=["parameters"]
ensemble_size = 5  # E: bookies that the ledger is spread over
write_quorum = 3  # Qw: bookies that store each entry
ack_quorum = 2  # Qa: acknowledgements that confirm an entry
entry_count = 8

# %%
from itertools import combinations, permutations

from labkit import At, Cluster, Crash, On, Scenario, Write, run
from labkit.course.lessons import check, compare, hint, parameters, predict, record
from labkit.course.runs.cluster_trial import failures
from labkit.course.runs.znodes import SetLayout, znodes_of
from labkit.system.client.quorum import is_covered
from labkit.system.client.striping import write_set
from labkit.system.metadata.ledger_layout import LAYOUTS
from labkit.views.widgets import EnsembleHistory, Stripes, XRay

parameters("05", globals())
sizes = ensemble_size, write_quorum, ack_quorum

# %% [markdown]
# **May your predictions be saved?** They and the hints you take are gone when the kernel ends. While this switch is on, they are saved in a file beside this notebook, for all lessons in this folder. You can read it and hand it in; nothing is sent anywhere. It is off at first, and turning it off, or deleting the file, deletes what was saved.

# %%
record()

# %% [markdown]
# ## 1 · The picture
#
# Rows are entries, columns are bookies. Change the numbers: E is the number of bookies, Qw the number of copies, Qa the number of acknowledgements that the writer waits for. Click a bookie's heading to make it fail.

# %%
Stripes(*sizes, entries=entry_count)

# %% [markdown]
# The stripes move by one place with each entry. So with E larger than Qw every bookie stores only Qw / E of the entries, and all bookies work at the same time.

# %% [markdown]
# ## 2 · Who knows?
#
# A writer creates a ledger and adds entries. Then we look at everything that the metadata store (ZooKeeper) holds.

# %%
write = Write(0, entry_count, *sizes, every_ms=50)
scenario = Scenario(Cluster(bookies=ensemble_size + 1), (write,))
moments = [On("lac.advanced", nth=entry_count), On("ledger.closed")]
during, after = znodes_of(scenario, moments)
during

# %% [markdown]
# - `available` has a node for each bookie that takes writes. The node disappears when the bookie's session ends.
# - `cookies` say which directories belong to which bookie.
# - `LAYOUT` says how ledger ids become paths: here id 0 lies at `00/0000/L0000`.
# - `L0000` is the ledger. These are its bytes:

# %%
XRay(during.piece(), width=8)

# %% [markdown]
# Three numbers (E, Qw, Qa), a state, and one **segment**: *from entry 0 on, these bookies, in this order*. No entry is named, although all entries so far are confirmed.
#
# **Predict.** How often was this node changed while the entries were added? A node's version counts its changes.

# %%
# solution
predict("changes while entries were added", 0)
# learner
# predict("changes while entries were added", None)
# end

# %%
compare("changes while entries were added", during.ledger()[1])

# %% [markdown]
# So adding costs the metadata store nothing, however many entries there are. What does closing change?

# %%
for moment in (during, after):
    metadata, version = moment.ledger()
    end = f"last_entry_id {metadata.last_entry_id:>2}, length {metadata.length:>3}"
    print(f"version {version}: {metadata.state.name:<6}  {end}")

# %% [markdown]
# While the ledger is open, `last_entry_id` means nothing: only the writer knows the end, and each bookie knows a part of it. Section 5 and [lesson 08](08-fencing-recovery.ipynb) are about that.
#
# A **bookie** knows even less: it has entries, but neither E nor Qw nor Qa, nor who else has a copy.

# %% [markdown]
# ### How ids become paths
#
# A cluster has one **ledger manager**, chosen when it is set up and named in `LAYOUT`. The same three ledgers under another manager: change the name.


# %%
def ledger_paths(layout):
    writes = [Write(n, 1, ensemble=3, client=f"w{n}", when=At(50)) for n in range(3)]
    chosen = Scenario(Cluster(3), (SetLayout(LAYOUTS[layout]), *writes))
    (znodes,) = znodes_of(chosen, [At(200)])
    return [path for path in znodes.nodes if path.rpartition("/")[2].startswith("L00")]


# %%
layout = "flat"  # yours to change: "hierarchical", "legacyhierarchical", "longhierarchical"
print("\n".join(ledger_paths(layout)))

# %% [markdown]
# (ZooKeeper numbers all children of a node in one sequence, and `flat` draws its ids from the node that has the ledgers. So its first ledger here does not have id 0.)
#
# **Predict.** With `flat` all ledgers are children of one node, and ZooKeeper's answer to "which children?" must fit into one megabyte. With `hierarchical`, how many ledgers lie below one node at most? The path of ledger 12345 is `00/0001/L2345`.

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
# **Predict.** On which places does the *last* of these entries, `entry_count - 1`, lie? Give a list of numbers, in the order of the write set.

# %%
# solution
last = entry_count - 1
predict("places of the last entry", [(last + i) % ensemble_size for i in range(write_quorum)])
# learner
# predict("places of the last entry", None)
# end

# %%
trace = run(scenario)
sent = {}
for event in trace.events:
    if event.kind == "add.sent" and event.node == "w":
        sent.setdefault(event.entry, []).append(event.peer)
for entry_id, bookies in sent.items():
    print(f"entry {entry_id} was sent to {', '.join(bookies)}")
compare("places of the last entry", [int(name[1:]) for name in sent[entry_count - 1]])

# %% [markdown]
# ### Your turn: the write set
#
# Compute the places of an entry. Your function replaces labkit's own in the client: the writer sends by it, readers and recovery look entries up by it. Bookies crash, links are cut, messages get lost. At the end another client looks up every entry, by BookKeeper's rule.


# %%
def my_write_set(entry_id, ensemble_size, write_quorum):
    # solution
    return tuple((entry_id + i) % ensemble_size for i in range(write_quorum))
    # learner
    # raise NotImplementedError  # -> a tuple of places
    # end


# %% tags=["exercise"]
check("quorums.write_set", my_write_set)

# %% [markdown]
# *Stuck? Run `hint("quorums.write_set")` in a new cell: three hints, from a nudge to nearly the answer.*
#
# This rule is not bad: it spreads the entries, too. But no other client uses it:


# %% tags=["refused"]
def next_free_places(entry_id, ensemble_size, write_quorum):
    first = entry_id * write_quorum
    return tuple((first + i) % ensemble_size for i in range(write_quorum))


check("quorums.write_set", next_free_places, must_pass=False)

# %% [markdown]
# ## 4 · What each number tolerates
#
# An add is confirmed by Qa acknowledgements, from *any* Qa of the Qw bookies. It is recorded nowhere from which. So when bookies fail, assume the worst: exactly the bookies that had the entry fail.
#
# **Predict.** How many bookies may fail, *whichever they are*, while every confirmed entry is certain to survive?

# %%
# solution
predict("this many bookies may fail, whichever they are", ack_quorum - 1)
# learner
# predict("this many bookies may fail, whichever they are", None)
# end

# %%
places = set(range(ensemble_size))
safe = [
    count
    for count in range(ensemble_size)
    if all(is_covered(places - set(gone), *sizes) for gone in combinations(places, count))
]
compare("this many bookies may fail, whichever they are", max(safe))

# %% [markdown]
# If one more fails, side by side, an entry may be lost:

# %%
Stripes(*sizes, entries=entry_count, failed=range(ack_quorum))

# %% [markdown]
# *Perhaps lost*, not *lost*: the writer sends every entry to all Qw bookies, and normally all of them store it. But the protocol does not promise that.
#
# And the writer? It needs Qa answers of each write set. This cluster has no bookie to spare, so none can be replaced. Bookies at neighbouring places of the ensemble fail after the second confirmed entry. (`window=1`: the writer has at most one entry under way.)

# %%
for count in (write_quorum - ack_quorum, write_quorum - ack_quorum + 1):
    crashes = [Crash(f"b{i}", when=On("lac.advanced", nth=2)) for i in range(count)]
    steps = (Write(0, 3 * ensemble_size, *sizes, window=1),)
    broken = run(Scenario(Cluster(ensemble_size), steps, tuple(crashes), limit_s=20))
    words = [note.split(": ")[1] for note in failures(broken)] or ["all entries are confirmed"]
    print(f"{count} of {ensemble_size} bookies fail: {words[0]}")

# %% [markdown]
# | this many bookies may fail, whichever they are | and still |
# | --- | --- |
# | Qa − 1 | every confirmed entry is there, and recovery can find the end of the ledger |
# | Qw − Qa | adds are confirmed, and no bookie has to be replaced |
# | Qw − 1 | an entry that all its bookies stored is there |
#
# Recovery also writes the last entries back before it closes the ledger. For that Qa bookies of each write set must take them: the ledger's own, or spares.
#
# The first two rows pull in opposite directions. A large Qa protects your data; a small Qa tolerates slow bookies. E is for speed, and it *costs* safety: with E above Qw more pairs of bookies have an entry in common.
#
# ### Numbers that cannot be
#
# **Predict.** A client asks for E = 3, Qw = 2, Qa = 3. Is the ledger `"created"`, is it `"refused"`, or does the first add `"wait"` for ever?

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
was_created = any(e.kind == "ledger.created" for e in impossible.events)
compare("a ledger with Qa above Qw", "created" if was_created else "refused")

# %% [markdown]
# **E ≥ Qw ≥ Qa ≥ 1.** An entry goes to Qw bookies, so no more than Qw can acknowledge it: an add would wait for ever. And Qw different places must be found among E.
#
# Possible numbers are not enough either. The bookies of the first segment are chosen when the ledger is created, among those that take writes. Three bookies, and a ledger that wants more:

# %%
bookies_wanted = 4  # yours to change: 3, 5
too_few = run(Scenario(Cluster(3), (Write(0, 1, bookies_wanted, 3, 2),), limit_s=5))
print("\n".join(failures(too_few)) or "confirmed")
print("ledgers created:", sum(e.kind == "ledger.created" for e in too_few.events))

# %% [markdown]
# `BKNotEnoughBookiesException` comes before a ledger id is drawn, and nothing is left behind. Waiting would not help: no bookie has promised to start.
# %% [markdown]
# ## 5 · When are answers enough?
#
# The writer is gone. You ask all E bookies for their newest entry, and answers come in one by one. Some bookies stay silent. When can you be sure that you miss no confirmed entry?
#
# `known` are the places that answered, whatever they said: *no such entry* is an answer, an error is not. Your function goes into the real client. A reader that asks how far a ledger is confirmed stops waiting as soon as your function returns `True`.


# %%
def my_is_covered(known, ensemble_size, write_quorum, ack_quorum):
    # solution
    for first in range(ensemble_size):
        silent = 0
        for place in my_write_set(first, ensemble_size, write_quorum):
            silent += place not in known
        if silent >= ack_quorum:
            return False
    return True
    # learner
    # raise NotImplementedError  # -> True or False
    # end


# %% tags=["exercise"]
check("quorums.coverage", my_is_covered)

# %% [markdown]
# "A majority answered" is the rule of many other systems. Here it is wrong:


# %% tags=["refused"]
def majority(known, ensemble_size, write_quorum, ack_quorum):
    return len(known) > ensemble_size // 2


check("quorums.coverage", majority, must_pass=False)

# %% [markdown]
# ## 6 · When is an entry lost?
#
# Now take one entry. You ask the Qw bookies of its write set. If one has it, it is found. If none does: `denied` of them say *no such entry*, `silent` of them fail, and the others have not answered yet. When does that prove that the entry was never confirmed, so that the ledger may be closed before it?
#
# Your function decides in real recoveries. If it says yes too early, a confirmed entry is cut off. If it says yes too late, the ledger cannot be closed.


# %%
def my_is_lost(denied, silent, write_quorum, ack_quorum):
    # solution
    return write_quorum - denied < ack_quorum
    # learner
    # raise NotImplementedError  # -> True or False
    # end


# %% tags=["exercise"]
check("quorums.lost", my_is_lost)

# %% [markdown]
# The tempting mistake is to count a bookie that fails as one that has nothing. BookKeeper made it once: a bookie that could not read its disk said *no such entry* (#2908), and recovery cut ledgers off.


# %% tags=["refused"]
def silence_is_denial(denied, silent, write_quorum, ack_quorum):
    return denied + silent > write_quorum - ack_quorum


check("quorums.lost", silence_is_denial, must_pass=False)

# %% [markdown]
# ## 7 · When the ensemble changes
#
# A bookie fails, and a spare one is available. Then, and only then, the writer changes the metadata: a new **segment** begins after the last confirmed entry.

# %%
crash = Crash("b1", when=On("lac.advanced", nth=max(entry_count // 2, 1)))
EnsembleHistory(run(scenario.with_fault(crash)))

# %% [markdown]
# Each row is a moment, each column a range of entries; a box is filled as far as its copies are durable. The old segment stays as it was: its entries do not move, and one of their bookies is gone. [Lesson 07](07-ensemble-change.ipynb) shows how the change works, [lesson 09](09-re-replication.ipynb) who restores the missing copies.
#
# ### Counted from where?
#
# Suppose a figure shows a ledger on bookies 1 to 4, each message on three of them, with an ensemble that begins at entry 1. Entry 1 is on 1, 2, 3; entry 2 on 2, 3, 4; entry 3 on 3, 4, 1. There are two ways to read it:

# %%
figure_ensemble = 1, 2, 3, 4  # yours to change: the bookies, in the order of the metadata
begins_at = 1
print("entry   counted from the segment   by the absolute entry id")
for entry_id in range(begins_at, begins_at + 4):
    counted, absolute = (
        [figure_ensemble[place] for place in write_set(number, 4, 3)]
        for number in (entry_id - begins_at, entry_id)
    )
    print(f"{entry_id:>5}   {counted!s:<24}   {absolute}")

# %% [markdown]
# BookKeeper's rule is the right-hand column: striping uses the *absolute* entry id, and the round does not start over in a new segment.
#
# **Predict.** In which order must the metadata list the bookies so that the right-hand column is the figure's? A tuple.

# %%
# solution
predict("the figure's ensemble", (4, 1, 2, 3))
# learner
# predict("the figure's ensemble", None)
# end

# %%
figure = {1: [1, 2, 3], 2: [2, 3, 4], 3: [3, 4, 1]}


def is_figure(ensemble):
    stored = {e: [ensemble[place] for place in write_set(e, 4, 3)] for e in figure}
    return stored == figure


compare("the figure's ensemble", next(filter(is_figure, permutations(range(1, 5)))))

# %% [markdown]
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | metadata v3: a line of text, a length, protobuf | the same bytes (`LedgerMetadataSerDe`); older versions are read, too |
# | `LAYOUT`, four ways to lay out ids | the same; `HierarchicalLedgerManagerFactory` is the default |
# | `striping.write_set` | `RoundRobinDistributionSchedule.getWriteSet` |
# | `quorum.is_covered` | `RoundRobinDistributionSchedule.RRQuorumCoverageSet.checkCovered` |
# | a writer goes on while Qa acknowledgements are possible | it ends with `BKNotEnoughBookiesException` when a failed bookie cannot be replaced, unless `delayEnsembleChange=true` |
# | E, Qw, Qa of `create_ledger` | `createLedger(ensSize, writeQuorumSize, ackQuorumSize, …)`; in Pulsar `managedLedgerDefaultEnsembleSize`, `…WriteQuorum`, `…AckQuorum`, all 2 by default |
#
# Known defects:
# - **#2908**: a bookie with a damaged entry log answered *no such entry*. Recovery believed it and closed ledgers before entries that existed.
# - **#3952** asks why a reader gives up although one bookie answered well: because one answer does not cover the others (section 5).
# - **#1390**: a write fails on the third bookie after the other two confirmed it. The entry has one copy too few, and only the auditor notices, later ([lesson 09](09-re-replication.ipynb)).

# %% [markdown]
# ## Questions
#
# <details><summary>Why is the list of an entry's bookies not stored with the entry?</summary>
#
# A reader would have to find the entry before it could read where the entry is. The formula needs three numbers and one list for the whole segment, and they are in memory.
# </details>
#
# <details><summary>E = 3, Qw = 3, Qa = 3. What is good, what is bad?</summary>
#
# A confirmed entry survives any two losses. But one bookie that is slow or down stops every add until it is replaced.
# </details>
#
# <details><summary>E = 5, Qw = 2, Qa = 2: two bookies are lost for good. Which entries are gone?</summary>
#
# If the two are neighbours: those whose write set they are, one in five. If not: none. Try it in the picture.
# </details>
#
# <details><summary>Why does "no such entry" count as an answer in section 5, although it reports no entry?</summary>
#
# Coverage asks which bookies can have acknowledged an entry that we have not heard of. A bookie that says what it has, even if that is nothing, is not one of them. An error leaves that open.
# </details>
#
# <details><summary>In section 6, why does a single copy suffice to find an entry, though one copy may be less than Qa?</summary>
#
# It may have been confirmed; nothing rules that out. So recovery keeps it, and writes it back to all Qw bookies before it goes on. Keeping an entry that was never confirmed does no harm.
# </details>
#
# **Next:** [06 LastAddConfirmed](06-lac.ipynb): the entries are there. What may a reader see of them?
