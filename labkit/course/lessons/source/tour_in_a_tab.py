# %% [markdown]
# # 00 · Where does a message go?
#
# You publish a message. A moment later it lies on three disks, and a crash of any of the three machines cannot take it from you. This tour follows one entry all the way down. It runs in your browser: the client and the five bookies are labkit's real code, and time, network and disks are **simulated**. So a run can be repeated exactly, and changed at any moment.
#
# The same tour with processes, sockets and ZooKeeper is for Binder or your own machine; everything here is true there, too.
#
# **At the end you can** say which bookies store an entry, what a bookie's crash does to your data, and find an entry's bytes in a journal file.
#
# | word | what it is |
# | --- | --- |
# | **bookie** | a storage node; it keeps entries |
# | **ledger** | an append-only list of entries with one writer; spread over several bookies |
# | **entry** | what is stored, acknowledged and read as one; holds one message or a batch |
#
# Press **Shift+Enter** in each cell, from the top.

# %% tags=["parameters"]
bookies = 5
entry_count = 8

# %%
from labkit import Cluster, ClusterView, Crash, On, Scenario, Write, XRay, run
from labkit.course.lessons import compare, predict
from labkit.course.runs.one_bookie import OneBookie
from labkit.system.client.striping import write_set
from labkit.system.model.byte_region import Piece
from labkit.system.storage.xray import journal_spans

# %% [markdown]
# ## 1 · One ledger on four of the bookies
#
# A ledger has three sizes. **E** (ensemble size): how many bookies it is spread over. **Qw** (write quorum): how many copies each entry gets. **Qa** (ack quorum): how many bookies must have it on disk before your add counts.
#
# > **The rule.** Entry *e* goes to *Qw* bookies, from place *e mod E* of the ensemble on. It is confirmed once *Qa* of them have synced it, and every entry before it is confirmed.
#
# **Predict.** E = 4, Qw = 3, and entry 0 goes to the first three bookies of the ensemble: places 0, 1 and 2. Which three places will store entry 3? Put a list of three numbers in the place of `None`, in the rule's order.

# %%
predict("places of entry 3", None)

# %%
write = Write(entries=entry_count, ensemble=4, write_quorum=3, ack_quorum=2)
scenario = Scenario(Cluster(bookies=bookies), (write,), seed=1)
trace = run(scenario)
ClusterView(trace)

# %%
compare("places of entry 3", write_set(3, 4, 3))

# %% [markdown]
# Bookies are columns, entries are rows. Press ✕ under a bookie: the same run happens again without it from that moment on. Successive entries start one bookie further: the ledger is **striped**, so all four disks share the work although each entry has only three copies.
#
# ## 2 · What happened to entry 2?
#
# The picture is drawn from the **trace**, the events that every node reported. Each event knows its cause, so the way of one entry can be walked back from its end.

# %%
done = next(e for e in trace.events if e.kind == "lac.advanced" and e.entry == 2)
path = trace.lineage(done.seq)
for event in path:
    print(f"{event.time_us - path[0].time_us:>7} us  {event.node:<3} {event.kind}")

# %% [markdown]
# Read it from the top. The writer gives the payload its entry id and sends it to a bookie. The bookie puts it into its **memtable** (memory), appends it to its **journal** (the write-ahead log), and answers only when the journal is **synced** to disk. With the second such answer the writer's **LastAddConfirmed** moves: entry 2 is stored.
#
# ## 3 · Kill a bookie
#
# The same run again, but one of the ledger's bookies loses its power just after entry 3 is confirmed, and what it had not synced is gone.
#
# **Predict.** Which of the entries 0 to 3 can still be read? Put a list of their ids. And can the writer still write?

# %%
predict("entries that can still be read", None)

# %%
ensemble = trace.at().ledgers[0].segments[0].ensemble
victim = ensemble[1]
broken_run = run(scenario.with_fault(Crash(victim, "lost", when=On("lac.advanced", nth=4))))
print(f"{victim} crashes")
ClusterView(broken_run)

# %%
copies = {e: [ensemble[place] for place in write_set(e, 4, 3)] for e in range(4)}
for entry_id, names in copies.items():
    left = [name for name in names if name != victim]
    print(f"entry {entry_id}: {', '.join(names)}; left: {', '.join(left)}")
compare(
    "entries that can still be read", [e for e, names in copies.items() if set(names) != {victim}]
)

# %% [markdown]
# Every entry has a copy left, so a reader asks the next bookie of its write set. The writer has put another bookie into the place of the dead one: below the dotted line another ensemble holds. What exactly it does then, and from which entry on, is [lesson 07](07-ensemble-change.ipynb). Change `victim` or `nth` and run the cells again.
#
# ## 4 · The bytes
#
# Here is a bookie's journal after one add, byte for byte as Apache BookKeeper would have written it. Point at a byte, or use the arrow keys, to see what it says.

# %%
bookie = OneBookie()
bookie.add((5, 0))
bookie.commit()
disk = bookie.machine.journals[0]
spans = tuple(s for s in journal_spans(disk, 1) if s.offset + s.size <= 1024)
XRay(Piece("journal", "current/1.txn", 0, disk.open("current/1.txn").read(0, 1024), spans, 1024))

# %% [markdown]
# Before the payload come its digest (made by the client, checked by every reader), how many bytes the ledger has, the LastAddConfirmed of that moment, the two ids, and the record's length. In front of it all lies a record with entry id -4096: the ledger's master key, so that replay can create the ledger again. [Lesson 02](02-journal.ipynb) reads the rest.
#
# **Check yourself.** At which offset does the payload begin in this file?

# %%
my_offset = None  # your answer, a number
truth = next(s.offset for s in spans if s.name == "payload")
if my_offset is None:
    print("point at the payload's first byte, and put its offset in the place of None")
else:
    print("right" if my_offset == truth else "no: look for the span called payload")

# %% [markdown]
# **Questions**
#
# <details><summary>Entry 5 of an E=4, Qw=3 ledger: which places?</summary>5 mod 4 = 1: places 1, 2 and 3 of the ensemble.</details>
# <details><summary>With Qw=3 and Qa=2: how many bookies may fail before an acknowledged entry can be lost?</summary>Only Qa = 2 copies are sure when the add is acknowledged, so one failure is survived for certain: Qa - 1.</details>
#
# **Next:** [lesson 01](01-entry.ipynb). Lessons 01 to 10 and 14 to 17 run in this tab; what you change is kept in this browser, and *File → Download* saves it.
