# %% [markdown]
# # 06 · What may a reader see?
#
# A writer pushes entries without waiting for earlier ones to be acknowledged. Each entry is sent to several bookies, and acknowledgements arrive in any order. A bookie may have an entry that no other bookie has and that it has not even acknowledged yet. Should a reader see this entry?
#
# **At the end you can**
# - explain what LastAddPushed and LastAddConfirmed are,
# - explain how a reader learns LastAddConfirmed, and why the newest entry looks unconfirmed,
# - say what happens to a reader that reads too far,
# - run your own writer and reader, the first parts of a client that you complete in [lesson 17](17-build-a-client.ipynb).
#
# **Takes** about 45 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson 05. Allow about 120 more minutes for writing the two parts, now or at home.
#
# > **The rule.** *Entries are confirmed in the order of their ids, and each needs Qa acknowledgements. A reader may read up to a LastAddConfirmed that the writer has announced, but not one entry beyond it.*
#
# The rule guarantees that once any reader has seen an entry, every later reader can see it, too, no matter what fails.

# %% tags=["parameters"]
entry_count = 6
slow_ms = 20  # extra latency of one bookie's disk
pause_ms = 5  # between two adds of a slow writer

# %%
from labkit.course.lessons import (
    At,
    Cluster,
    Crash,
    On,
    OneBookie,
    Partition,
    Read,
    Recover,
    Scenario,
    SlowDisk,
    SpaceTime,
    Write,
    check_all,
    closed_at,
    compare,
    lac_read,
    parameters,
    predict,
    run,
    tailing_delays,
    written_entries,
)
from labkit.course.workshop import begin, check, hint, overview, step

# %%
parameters("06", globals())

# %% [markdown]
# ## 1 · The picture
#
# This cluster has three bookies. Each entry is stored on two of them, and both must acknowledge it: E = 3, Qw = 2, Qa = 2. The writer's `window`, the number of entries that may be unconfirmed, is large enough for it to push all entries at once. The disk of `b1` is slow. The picture shows only entries 0 to 2; *acked* means that at least one acknowledgement for each of these entries has arrived.

# %%
write = Write(0, entry_count, 3, 2, 2, window=entry_count)
slow = run(Scenario(Cluster(3), (write,), (SlowDisk("b1", slow_ms),)))
SpaceTime(slow, entries=(0, 2))

# %% [markdown]
# **LastAddPushed** (LAP) is the last entry id that the writer has assigned. **LastAddConfirmed** (LAC) is the last entry that has been confirmed to the caller. All entries before it are confirmed as well.
#
# **Predict.** Which entry is the first to have both acknowledgements? Remember the stripes: entry 0 is on b0 and b1, entry 1 on b1 and b2, entry 2 on b2 and b0.

# %%
# solution
predict("first entry with both acknowledgements", 2)
# learner
# predict("first entry with both acknowledgements", None)
# end

# %%
written = written_entries(slow)
print("both acknowledgements   confirmed")
for entry_id, entry in written.items():
    print(f"entry {entry_id}: {entry.acked_ms[1]:8.1f} ms {entry.confirmed_ms:11.1f} ms")
first = min(written, key=lambda entry_id: written[entry_id].acked_ms[1])
compare("first entry with both acknowledgements", first)

# %% [markdown]
# Entry 2 is on two disks long before it is confirmed. It has to wait for the entries before it, and so does the caller. This delay is the price of a single number that means *everything up to here*.

# %% [markdown]
# ## 2 · Your turn: the writer
#
# In this lesson and the next two, you write a client, one step at a time. All of it is in one file, `myclient.py`, in the folder of this notebook. The next cell creates the file. It never overwrites an existing file.

# %%
# solution
from labkit.course.lessons import track

my_file = track("client").solution
# learner
# my_file = begin("client")
# end
print(my_file.name)

# %% [markdown]
# Open `myclient.py` in a second tab. It contains every part that you will write, each with a comment that names its step. Your code uses an object called `cluster`, which sends requests to individual bookies. Everything else is up to you. The code is asynchronous:
#
# - `await cluster.add_entry("b0", entry)` sends an add to `b0` and continues when `b0` has acknowledged it. Other code runs in the meantime.
# - `cluster.spawn(self.send(...))` starts one of your functions and does not wait for it.
# - `self.cluster.ledger_id` is the id of the ledger, and `self.metadata` contains E, Qw and Qa as `ensemble_size`, `write_quorum` and `ack_quorum`.
# - `asyncio.get_running_loop().create_future()` creates a **future**, a result that is not known yet. `await future` waits until some other code calls `future.set_result(...)`.
#
# This is the **contract** of the first step. `write_set` is the function from [lesson 05](05-ensembles.ipynb), so you can copy yours.

# %%
step("client", 1)

# %% [markdown]
# Write the two parts in `myclient.py`, save the file, and run the next cell. The check first acknowledges your writer's adds in many different orders. Then it runs your writer in small clusters, with every possible order of the messages of two adds. After that, it runs your writer in **storms**, which consist of many random faults at about the same time, such as crashes, lost messages and network partitions. A seed determines the faults. At the end, labkit's own client reads what your writer has stored.

# %% tags=["exercise"]
check("client", 1, my_file, seeds=6)

# %% [markdown]
# *Stuck? Run `hint("client", 1)` in a new cell for the first of three hints. To read about each request, run `from labkit.course.workshop.client.api import Cluster` and then `help(Cluster)`.*

# %% [markdown]
# ### Who keeps the order?
#
# Do bookies keep entries in order? Here, entries of ledger 5 arrive at one bookie out of order. Entry 0 arrives twice, the second time with a different payload. You can change `arrivals`.

# %%
arrivals = [(2, 20), (0, 20), (1, 20), (0, 99)]  # entry id, bytes of payload: yours to change
bookie = OneBookie()
for entry_id, size in arrivals:
    bookie.add((5, entry_id), payload_size=size)
bookie.commit()
records = [e.entry for e in bookie.trace.events if e.kind == "journal.appended"]
print("journal: ", records)
print("memtable:", bookie.store.entry_ids(5))

# %% [markdown]
# **Predict.** The bookie has acknowledged all four adds. What did your memtable in [lesson 03](03-memtable-entry-log-index.ipynb) do with an entry that it already had? Which payload does it return for entry 0, the one with 20 bytes or the one with 99?

# %%
# solution
predict("bytes of entry 0", 20)
# learner
# predict("bytes of entry 0", None)
# end

# %%
compare("bytes of entry 0", len(bookie.payload(5, 0)))

# %% [markdown]
# A bookie accepts entries in any order. It keeps the first payload of each entry, and does not compare the payloads of two entries with the same id. The **writer** must use entry ids in order, and use each id for only one payload. The writer may *send* an entry more than once, for example when `b1` dies and another bookie replaces it:

# %%
dies_at = 1  # b1 dies when this entry gets its id: yours to change
one_dies = Crash("b1", when=On("add.pushed", entry=dies_at))
replaced = run(Scenario(Cluster(4), (write,), (one_dies,)))
for entry_id, entry in written_entries(replaced).items():
    print(f"entry {entry_id}: id assigned {entry.push_count} time, sent {entry.sent_count} times")

# %% [markdown]
# The same id always means the same bytes. The writer assigns each id to only one payload, no matter how many times it sends the entry.
#
# ## 3 · Break it: out of order
#
# Entry 2 *is* on two disks. What is the harm in confirming it? The variant `LAC out of order` is the real client with this one rule changed. Now there are four bookies. `b0` and `b1` are slow and lose power before they have synced anything. The writer dies at the same moment. Later, another client recovers the ledger.

# %%
steps = Write(0, 4, 4, 2, 2, window=4), Recover(when=At(60))
cuts = [Crash(name, "lost", down_ms=20, when=At(10)) for name in ("b0", "b1")]
slow_disks = [SlowDisk(name, 30, for_ms=20) for name in ("b0", "b1")]
faults = *slow_disks, *cuts, Crash("w", when=At(10))
scenario = Scenario(Cluster(4), steps, faults)
wrong = run(Scenario(Cluster(4), steps, faults, variant="LAC out of order"))
verdict = next(v for v in check_all(wrong) if v.name == "AcknowledgedIsDurable")
verdict

# %%
SpaceTime(wrong, entries=(0, 2), broken=verdict)

# %% [markdown]
# The writer set LastAddConfirmed to 2, which promises that everything up to entry 2 can be read. Recovery reads entry by entry. It asks for entry 0, and both b0 and b1 respond that they do not have it. Ledgers have no holes, so recovery closes the ledger without any entry. Entry 2, which had been confirmed to the writer's caller, is lost, even though b2 and b3 still have it.
#
# Now run the real client with the same faults:

# %%
right = run(scenario)
verdict = next(v for v in check_all(right) if v.name == "AcknowledgedIsDurable")
print(f"{verdict.name}: {verdict.outcome}")
confirmed = [each for each in written_entries(right).values() if each.confirmed_ms is not None]
print("confirmed to the writer:", len(confirmed))

# %% [markdown]
# No entry had been confirmed, so this run does not test the promise, and the verdict is *unknown*.

# %% [markdown]
# ## 4 · How does a reader learn LastAddConfirmed?
#
# A reader never talks to the writer. The writer packs LastAddConfirmed into **each entry** ([lesson 01](01-entry.ipynb)), so a bookie that has entry *n* knows which entries had been confirmed when *n* was pushed. The writer does not need to send an extra message. A reader asks the bookies for their newest entries.
#
# **Predict.** A writer adds its entries one by one, waiting for each to be confirmed before it pushes the next. Then it goes idle. All of its entries are confirmed. Up to which entry can a reader read?

# %%
# solution
predict("what a reader learns", entry_count - 2)
# learner
# predict("what a reader learns", None)
# end

# %%
calm = Write(0, entry_count, 3, 2, 2, every_ms=pause_ms, close=False)
after = entry_count * pause_ms + 20
resting = run(Scenario(Cluster(3), (calm, Read(when=At(after)))))
for entry_id, entry in written_entries(resting).items():
    print(f"entry {entry_id} carries LastAddConfirmed {entry.last_add_confirmed}")
compare("what a reader learns", lac_read(resting))

# %% [markdown]
# The last entry is confirmed, but no later entry says so. To readers, it looks unconfirmed until the ledger is closed. In section 1, where the writer pushed everything at once, every entry contains the LastAddConfirmed −1.
#
# There are two remedies:
# - **explicit LAC**: after a short time without adds, an idle writer announces its LastAddConfirmed in a separate message;
# - **closing** the ledger: from then on, the metadata records where the ledger ends.

# %% [markdown]
# ## 5 · Tailing
#
# A reader that follows a writer does not poll in a loop. It sends a **long poll**: "respond as soon as your LastAddConfirmed is greater than 3". The bookie holds the request until an entry or an explicit LAC advances its LastAddConfirmed.

# %%
print("no explicit LAC")
print(tailing_delays(calm, explicit_lac_interval_ms=0))
print(f"explicit LAC every {20 * pause_ms} ms")
print(tailing_delays(calm, explicit_lac_interval_ms=20 * pause_ms))

# %% [markdown]
# The reader receives each entry after the writer has pushed the next one. Without an explicit LAC, it never receives the last one. With an explicit LAC, it receives the last one within one interval.

# %% [markdown]
# ## 6 · Your turn: how far may a reader read?
#
# What if a reader simply reads every entry that any bookie has? In this run, all three bookies should store every entry, and two must acknowledge it (E = 3, Qw = 3, Qa = 2). But `b1` is the only bookie that receives entries 5, 6 and 7. Then the writer and `b1` die, and another client recovers the ledger.
#
# **Predict.** At which entry does the ledger end?

# %%
# solution
predict("end of the ledger without b1", 4)
# learner
# predict("end of the ledger without b1", None)
# end

# %%
alone = Partition(("w",), ("b0", "b2"), when=On("add.pushed", entry=5))
deaths = Crash("w", when=At(40)), Crash("b1", when=At(60))
steps = Write(0, 8, 3, 3, 2, every_ms=1, close=False), Recover(when=At(80))
orphaned = run(Scenario(Cluster(3), steps, (alone, *deaths)))
compare("end of the ledger without b1", closed_at(orphaned))

# %% [markdown]
# Recovery is right, because entries 5 to 7 were never confirmed. But suppose that a reader asked `b1` before it died and passed these entries on to its application. Then one reader has seen entries that do not exist for any other reader.
#
# Now write a reader that cannot make this mistake. It asks the bookies for their newest entries and decides two things: when it has enough responses (copy your function `my_is_covered` from section 5 of [lesson 05](05-ensembles.ipynb)), and how far it may read. Your writer has to help by putting its LastAddConfirmed into each entry.

# %%
step("client", 2)

# %% tags=["exercise"]
check("client", 2, my_file, seeds=6)

# %% [markdown]
# *Stuck? Run `hint("client", 2)` in a new cell.*
#
# ## Your client so far

# %%
overview("client", my_file)

# %% [markdown]
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `LedgerWriter.complete_adds` | `LedgerHandle.sendAddSuccessCallbacks`: processes `pendingAddOps` from the front until it finds an incomplete one |
# | `read_last_add_confirmed` | `readLastAddConfirmed`: asks all E bookies until the responses reach quorum coverage |
# | `try_read_last_add_confirmed` | `tryReadLastAddConfirmed`: one bookie with a higher LastAddConfirmed is enough |
# | explicit LAC | the client's `explicitLacInterval`, in ms; 0 (off) by default. Pulsar: `bookkeeperExplicitLacIntervalInMills` |
# | long poll | `readLastAddConfirmedAndEntry`, protocol version 3 only; a version 2 client gets a plain read |
# | a read beyond LastAddConfirmed raises `BKReadException` | the same; `readUnconfirmedEntries` skips the check, for clients that learn the end of the ledger elsewhere |
#
# A Pulsar broker reads from ledgers that it also writes. As the writer, it always knows LastAddConfirmed, so its consumers get the newest message immediately.
#
# A recovery must read beyond LastAddConfirmed, because it looks for entries that were confirmed but not yet announced. It writes each entry that it finds back to the entry's bookies before it continues ([lesson 08](08-fencing-recovery.ipynb)).

# %% [markdown]
# ## Questions
#
# <details><summary>Can LastAddConfirmed advance during an ensemble change?</summary>
#
# No. The new segment starts after LastAddConfirmed. If LastAddConfirmed advanced in the meantime, confirmed entries would fall into the new segment, and readers would look for them on bookies that do not have them ([lesson 07](07-ensemble-change.ipynb)).
# </details>
#
# <details><summary>A reader learns that LastAddConfirmed is 5. It asks again, and every bookie that responds says 3. What happened?</summary>
#
# This time, other bookies responded, and these bookies do not have the newest entries. The value 5 is still valid, because LastAddConfirmed never decreases.
# </details>
#
# <details><summary>Why does a bookie not simply count the entries that it has?</summary>
#
# If E is larger than Qw, a bookie has only some of the entries. Besides, a bookie's own copies prove nothing about the copies on other bookies.
# </details>
#
# <details><summary>Two of three bookies acknowledged entry 4, the add failed on the third one, and Qa is 2. Is the entry confirmed?</summary>
#
# Yes, provided that entries 0 to 3 have been confirmed. The third copy is missing. The writer replaces the failed bookie from the next entry on, and an autorecovery worker eventually creates the missing copy.
# </details>
#
# **Next:** [07 ensemble change](07-ensemble-change.ipynb). A bookie fails while entries are in flight.
