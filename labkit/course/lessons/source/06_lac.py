# %% [markdown]
# # 06 · What may a reader see?
#
# A writer pushes entries without waiting for earlier ones. Each goes to several bookies, and answers come back in any order. A bookie may have an entry that it has not acknowledged to the writer, and that no other bookie has. Should a reader see it?
#
# **At the end you can**
# - say what LastAddPushed and LastAddConfirmed are, and move the second one yourself,
# - say how a reader learns of it, and why the newest entry looks unconfirmed,
# - show, in a run, what happens to a reader that reads too far.
#
# **Takes** about 60 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 05.
#
# > **The rule.** *Entries are confirmed in the order of their ids, each with Qa acknowledgements. A reader reads up to a LastAddConfirmed that the writer has announced, and not one entry further.*
#
# Once any reader has seen an entry, every later reader will see it too, whatever fails.

# %% tags=["parameters"]
entry_count = 6
slow_ms = 20  # how much longer one bookie's disk takes
pause_ms = 5  # between two adds of a writer that does not hurry

# %%
from collections import Counter
from functools import partial

from labkit import At, Cluster, Crash, On, Read, Recover, Scenario, SpaceTime, Write, check_all, run
from labkit.course.exercises.lac import Tail

# %%
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.cluster_trial import failures, run_with
from labkit.course.runs.one_bookie import OneBookie
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.model.entry import decode_entry
from labkit.worlds.sim.scenario.faults import SlowDisk
from labkit.worlds.sim.settings.bookie_script import DIGEST

parameters("06", globals())

# %% [markdown]
# ## 1 · The picture
#
# Three bookies, each entry on two of them, and both must acknowledge: E = 3, Qw = 2, Qa = 2. The writer pushes all entries at once: its `window`, the number of entries that may be under way, is as large. The disk of `b1` is slow.

# %%
write = Write(0, entry_count, 3, 2, 2, window=entry_count)
slow = run(Scenario(Cluster(3), (write,), (SlowDisk("b1", slow_ms),)))
SpaceTime(slow, entries=(0, 2))

# %% [markdown]
# **LastAddPushed** (LAP) is the last entry id that the writer has assigned. **LastAddConfirmed** (LAC) is the last entry that is confirmed to the caller, together with all entries before it.
#
# **Predict.** Which entry is the first to have both its acknowledgements? Remember the stripes: entry 0 lies on b0 and b1, entry 1 on b1 and b2, entry 2 on b2 and b0.

# %%
# solution
predict("first entry with both acknowledgements", 2)
# learner
# predict("first entry with both acknowledgements", None)
# end

# %%
began = next(e.time_us for e in slow.events if e.kind == "add.pushed")
counts, complete, confirmed = Counter(), {}, {}
for event in slow.events:
    after_ms = (event.time_us - began) / 1000
    if event.kind == "add.acked" and event.node == "w":
        counts[event.entry] += 1
        if counts[event.entry] == 2:
            complete[event.entry] = after_ms
    if event.kind == "lac.advanced" and event.node == "w":
        confirmed[event.entry] = after_ms

# %%
print("both acknowledgements   confirmed")
for entry_id in range(entry_count):
    print(f"entry {entry_id}: {complete[entry_id]:8.1f} ms {confirmed[entry_id]:11.1f} ms")
compare("first entry with both acknowledgements", next(iter(complete)))

# %% [markdown]
# Entry 2 is on two disks long before it is confirmed: it waits for the entries before it. The caller waits, too. That is the price of a single number that says *everything up to here*.

# %% [markdown]
# ## 2 · Your turn: move LastAddConfirmed
#
# The writer asks you after each acknowledgement. `acks` counts the acknowledgements of the entries after LastAddConfirmed, in order: `acks[0]` belongs to entry `last_add_confirmed + 1`. Return the new LastAddConfirmed.
#
# Your function goes into the real writer. First one bookie is slow; then come **storms**: many faults at about the same time, drawn from a seed, such as crashes, lost messages and cut links.


# %%
def my_advance(last_add_confirmed, acks, ack_quorum):
    # solution
    for count in acks:
        if count < ack_quorum:
            break
        last_add_confirmed += 1
    return last_add_confirmed
    # learner
    # raise NotImplementedError  # -> the new LastAddConfirmed
    # end


# %% tags=["exercise"]
check("lac.advance", my_advance)

# %% [markdown]
# *Stuck? Run `hint("lac.advance")` in a new cell.* This one confirms the highest complete entry, even if earlier ones are incomplete:


# %% tags=["refused"]
def highest_complete(last_add_confirmed, acks, ack_quorum):
    complete = [place for place, count in enumerate(acks) if count >= ack_quorum]
    return last_add_confirmed + 1 + complete[-1] if complete else last_add_confirmed


check("lac.advance", highest_complete, must_pass=False)

# %% [markdown]
# ### Who keeps the order?
#
# Not the bookies. Here entries of ledger 5 come to one bookie in any order, and entry 0 comes twice, the second time with more bytes. Change `arrivals`.

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
# **Predict.** The bookie has acknowledged all four. Which payload of entry 0 does it return, the one of 20 bytes or the one of 99?

# %%
# solution
predict("bytes of entry 0", 20)
# learner
# predict("bytes of entry 0", None)
# end

# %%
stored = decode_entry(bookie.read(5, 0), DIGEST, 5, 0)
compare("bytes of entry 0", len(stored.payload))

# %% [markdown]
# A bookie orders nothing and compares nothing. That each entry id is used once, for one payload, and in which order, is the **writer's** to assure. It may *send* an entry more than once, as when `b1` dies and another bookie takes its place:

# %%
dies_at = 1  # b1 dies when this entry gets its id: yours to change
one_dies = Crash("b1", when=On("add.pushed", entry=dies_at))
replaced = run(Scenario(Cluster(4), (write,), (one_dies,)))
counts = Counter((e.kind, e.entry) for e in replaced.events if e.node == "w")
for entry_id in range(entry_count):
    pushed, sent = counts["add.pushed", entry_id], counts["add.sent", entry_id]
    print(f"entry {entry_id}: id given {pushed} time, sent {sent} times")

# %% [markdown]
# Same id, same bytes: an id is given to one payload only, however often the entry is sent.
#
# ## 3 · Break it: out of order
#
# What harm does that do, if entry 2 *is* on two disks? The variant `LAC out of order` is the real client with this one rule changed. Now there are four bookies; `b0` and `b1` are slow, and lose power before they have synced anything. Then the writer dies, too, and another client recovers the ledger.

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
# Entry 2 was confirmed, and it is still on b2 and b3. But recovery goes from entry to entry. It asks for entry 0, b0 and b1 deny it, and so the ledger ends before it: ledgers have no holes. A confirmed entry after a hole is lost.
#
# The same faults, with the real rule:

# %%
right = run(scenario)
verdict = next(v for v in check_all(right) if v.name == "AcknowledgedIsDurable")
print(f"{verdict.name}: {verdict.outcome}")
print(
    "confirmed to the writer:",
    sum(e.kind == "lac.advanced" and e.node == "w" for e in right.events),
)

# %% [markdown]
# Nothing was confirmed, so nothing was promised.

# %% [markdown]
# ## 4 · How does a reader learn it?
#
# A reader never asks the writer. The writer packs LastAddConfirmed into **each entry** ([lesson 01](01-entry.ipynb)): a bookie that has entry *n* knows what was confirmed when *n* was pushed. No extra message is needed.
#
# A reader asks the bookies for their newest entries and takes the highest LastAddConfirmed in them.
#
# **Predict.** A writer adds its entries one by one, each confirmed before the next, and then it rests. All are confirmed. Up to which entry may a reader read?

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
lac = -1
for event in resting.events:
    if event.node == "w" and event.kind == "add.pushed":
        print(f"entry {event.entry} carries LastAddConfirmed {lac}")
    if event.node == "w" and event.kind == "lac.advanced":
        lac = event.entry
learned = [e.entry for e in resting.events if e.node == "r" and e.kind == "lac.read"]
compare("what a reader learns", learned[-1])

# %% [markdown]
# The last entry is confirmed, and no later entry says so. It looks unconfirmed until the ledger is closed. And the writer that pushed everything at once, in section 1? All its entries carry −1.
#
# Two remedies:
# - **explicit LAC**: an idle writer announces its LastAddConfirmed without an entry, after some milliseconds;
# - **closing** the ledger: then the metadata says where it ends.

# %% [markdown]
# ## 5 · Tailing
#
# A reader that follows a writer does not ask again and again. It sends a **long poll**: "answer when you know of more than 3". The bookie holds the request until an entry or an explicit LAC moves its LastAddConfirmed.

# %%
tail = Tail(0, entry_count, timeout_s=1.0)
telling = partial(BookKeeper, config=ClientConfig(explicit_lac_interval_ms=20 * pause_ms))


def show_delays(client):
    followed = run_with(Scenario(Cluster(3), (calm, tail)), client=client)
    pushed = {e.entry: e.time_us for e in followed.events if e.kind == "add.pushed"}
    for event in followed.events:
        if event.kind == "read.done" and event.node == "r" and event.entry in pushed:
            late_ms = (event.time_us - pushed[event.entry]) / 1000
            print(f"   entry {event.entry} was read {late_ms:5.1f} ms after it was pushed")
    for note in failures(followed):
        print(f"   {note}")


# %%
print("no explicit LAC")
show_delays(BookKeeper)
print("explicit LAC")
show_delays(telling)

# %% [markdown]
# The reader gets each entry when the next one is pushed. It gets the last one only with an explicit LAC, after at most one interval.

# %% [markdown]
# ## 6 · Your turn: how far may it read?
#
# The reader has answers from enough bookies that it cannot miss a confirmed entry ([lesson 05](05-ensembles.ipynb)). `newest` has the newest entry of each of them: its id, and the LastAddConfirmed in it. `known` is the LastAddConfirmed that the reader knew before.
#
# Your function goes into the real reader. One bookie has missed the last entries; another has entries that no other bookie has, and dies.


# %%
def my_readable(known, newest):
    # solution
    return max([known, *(last_add_confirmed for entry_id, last_add_confirmed in newest)])
    # learner
    # raise NotImplementedError  # -> up to this entry
    # end


# %% tags=["exercise"]
check("lac.readable", my_readable)

# %% [markdown]
# And if a reader reads everything that is there? Two bookies have missed the last entries, the third has them:


# %% tags=["refused"]
def whatever_is_there(known, newest):
    return max([known, *(entry_id for entry_id, last_add_confirmed in newest)])


check("lac.readable", whatever_is_there, must_pass=False)

# %% [markdown]
# The reader has entry 7. Then the only bookie that has it dies, and recovery closes the ledger before it. That is right, since the entry was never confirmed. But one reader has seen an entry that never existed for all others.

# %% [markdown]
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `LedgerWriter.confirm` | `LedgerHandle.sendAddSuccessCallbacks`: from the first of `pendingAddOps`, as far as they are complete |
# | `read_last_add_confirmed` | `readLastAddConfirmed`: all E are asked, quorum coverage ends it |
# | `try_read_last_add_confirmed` | `tryReadLastAddConfirmed`: the first bookie that knows more is enough |
# | explicit LAC | `explicitLacInterval` of the client, in ms; 0, off, by default. Pulsar: `bookkeeperExplicitLacIntervalInMills` |
# | long poll | `readLastAddConfirmedAndEntry`, protocol version 3 only; with version 2 a client gets a plain read |
# | a read beyond LastAddConfirmed raises `BKReadException` | the same; `readUnconfirmedEntries` skips the check, for clients that know the end from elsewhere |
#
# Pulsar's broker reads for its consumers from ledgers that it writes itself. The broker is writer and reader in one and knows LastAddConfirmed itself; that is why consumers get the newest message at once.
#
# A recovery must read beyond LastAddConfirmed: it looks for entries that were confirmed but not yet announced. It writes every entry that it finds back to its Qw bookies before it goes on ([lesson 08](08-fencing-recovery.ipynb)).

# %% [markdown]
# ## Questions
#
# <details><summary>May LastAddConfirmed move while an ensemble is being changed?</summary>
#
# No. The new segment begins after LastAddConfirmed. If it moved in the meantime, confirmed entries would fall into the new segment, and readers would look for them on bookies that do not have them ([lesson 07](07-ensemble-change.ipynb)).
# </details>
#
# <details><summary>A reader learns 5, asks again, and all bookies that answer say 3. What happened?</summary>
#
# This time other bookies answered, which have missed the newest entries. 5 stays true: LastAddConfirmed never goes back.
# </details>
#
# <details><summary>Why does a bookie not simply count the entries that it has?</summary>
#
# With E above Qw it has only some of them. And its own entries prove nothing about the others.
# </details>
#
# <details><summary>Entry 4 failed on one of three bookies, two acknowledged it, Qa is 2. Is it confirmed?</summary>
#
# If entries 0 to 3 are: yes. The third copy is missing; the writer replaces that bookie from the next entry on, and the missing copy is made eventually, by the auditor's workers.
# </details>
#
# **Next:** [07 ensemble change](07-ensemble-change.ipynb): a bookie fails while entries are on their way.
