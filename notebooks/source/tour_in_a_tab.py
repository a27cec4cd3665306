# %% [markdown]
# # 00 · Where does a message go?
#
# You publish a message. A moment later it is on three disks, and you will not lose it even if one of the three machines crashes. In this tour, you follow one entry all the way down to the disk. The tour runs in your browser. The client and the five bookies are labkit's real code, while time, network and disks are **simulated**. So you can repeat a run exactly, and change it at any point.
#
# The same tour with processes, sockets and ZooKeeper runs on Binder or on your own machine. Everything that you learn here also applies to the real cluster.
#
# **At the end you can** say which bookies store an entry and what a bookie's crash does to your data, and find an entry's bytes in a journal file.
#
# | term | meaning |
# | --- | --- |
# | **bookie** | a storage node that stores entries |
# | **ledger** | an append-only list of entries with one writer, spread over several bookies |
# | **entry** | the unit of data that bookies store and acknowledge; contains one message or a batch |
#
# Press **Shift+Enter** in each cell, starting at the top.

# %% tags=["parameters"]
bookies = 5
entry_count = 8

# %%
from labkit import Cluster, ClusterView, Crash, On, Scenario, Write, XRay, run
from labkit.course.lessons import compare, predict
from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.client.striping import write_set
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.file_spans import journal_spans

# %% [markdown]
# ## 1 · One ledger on four of the bookies
#
# Every ledger has three parameters. **E** (ensemble size) is the number of bookies that the ledger is spread over. **Qw** (write quorum) is the number of copies of each entry. **Qa** (ack quorum) is the number of bookies that must have the entry on disk before the add counts as done.
#
# > **The rule.** Entry *e* is stored on *Qw* consecutive bookies, starting at index *e mod E* of the ensemble. The entry is confirmed once *Qa* of these bookies have synced it and all earlier entries have been confirmed.
#
# **Predict.** With E = 4 and Qw = 3, entry 0 is stored on the first three bookies of the ensemble, at the indices 0, 1 and 2. At which three indices is entry 3 stored? Replace `None` with a list of three numbers, in the order of the rule.

# %%
predict("write set of entry 3", None)

# %%
write = Write(entries=entry_count, ensemble=4, write_quorum=3, ack_quorum=2)
scenario = Scenario(Cluster(bookies=bookies), (write,), seed=1)
trace = run(scenario)
ClusterView(trace)

# %%
compare("write set of entry 3", write_set(3, 4, 3))

# %% [markdown]
# Each column is a bookie, and each row is an entry. Press ✕ under a bookie to repeat the run and kill this bookie at the moment shown. Each entry starts one bookie further along than the previous one. The ledger is **striped**, so all four disks share the work, even though each entry has only three copies.
#
# ## 2 · What happened to entry 2?
#
# labkit draws the picture from the **trace**, the list of events that the nodes recorded. Each event refers to its cause, so you can trace the path of an entry backwards from its end.

# %%
done = next(e for e in trace.events if e.kind == "lac.advanced" and e.entry == 2)
path = trace.lineage(done.seq)
for event in path:
    print(f"{event.time_us - path[0].time_us:>7} us  {event.node:<3} {event.kind}")

# %% [markdown]
# Read the output from the top. The writer assigns an entry id to the payload and sends the entry to a bookie. The bookie puts it into its **memtable** (in memory), appends it to its **journal** (the write-ahead log), and responds only after the journal has been **synced** to disk. With the second response, the writer's **LastAddConfirmed** advances: entry 2 is stored.
#
# ## 3 · Kill a bookie
#
# You repeat the run, but now one of the ledger's bookies loses power right after entry 3 has been confirmed. The bookie loses all of its unsynced data.
#
# **Predict.** Which of the entries 0 to 3 can you still read? Give a list of their ids. Can the writer still write?

# %%
predict("entries that can still be read", None)

# %%
ensemble = trace.at().ledgers[0].segments[0].ensemble
victim = ensemble[1]
broken_run = run(scenario.with_fault(Crash(victim, "lost", when=On("lac.advanced", nth=4))))
print(f"{victim} crashes")
ClusterView(broken_run)

# %%
copies = {e: [ensemble[index] for index in write_set(e, 4, 3)] for e in range(4)}
for entry_id, names in copies.items():
    left = [name for name in names if name != victim]
    print(f"entry {entry_id}: {', '.join(names)}; left: {', '.join(left)}")
compare(
    "entries that can still be read", [e for e, names in copies.items() if set(names) != {victim}]
)

# %% [markdown]
# Every entry still has a copy, so a reader asks the next bookie of the write set. The writer has replaced the dead bookie with another one, so the ensemble is different below the dotted line. [Lesson 07](07-ensemble-change.ipynb) explains exactly what the writer does, and at which entry the new ensemble starts. Change `victim` or `nth` and run the cells again.
#
# ## 4 · The bytes
#
# Here is a bookie's journal after one add. It is byte for byte what Apache BookKeeper would have written. Point at a byte, or use the arrow keys, to see what it means.

# %%
bookie = OneBookie()
bookie.add((5, 0))
bookie.commit()
disk = bookie.machine.journals[0]
spans = tuple(s for s in journal_spans(disk, 1) if s.offset + s.size <= 1024)
XRay(Piece("journal", "current/1.txn", 0, disk.open("current/1.txn").read(0, 1024), spans, 1024))

# %% [markdown]
# Before the payload, you see the record's length, the two ids, the LastAddConfirmed at that time, the ledger's length in bytes, and the digest. The client computes the digest, and every reader checks it. The first record has the entry id -4096. It contains the ledger's master key, so that replay can recreate the ledger. [Lesson 02](02-journal.ipynb) explains the rest.
#
# **Check yourself.** At which offset does the payload start in this file?

# %%
my_offset = None  # your answer, a number
truth = next(s.offset for s in spans if s.name == "payload")
if my_offset is None:
    print("point at the payload's first byte, and replace None with its offset")
else:
    print("right" if my_offset == truth else "no: look for the span called payload")

# %% [markdown]
# **Questions**
#
# <details><summary>Where is entry 5 of a ledger with E=4 and Qw=3 stored?</summary>5 mod 4 = 1, so it is stored at the indices 1, 2 and 3 of the ensemble.</details>
# <details><summary>With Qw=3 and Qa=2, how many bookies can fail without putting an acknowledged entry at risk?</summary>One. When the add is acknowledged, only Qa = 2 copies are guaranteed to exist, so the entry survives Qa - 1 failures.</details>
#
# **Next:** [lesson 01](01-entry.ipynb). Lessons 01 to 10 and 14 to 17 run in this tab. This browser keeps your changes. *File → Download* saves them to a file.
