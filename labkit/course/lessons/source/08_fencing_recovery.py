# %% [markdown]
# # 08 · Two writers?
#
# A ledger has one writer. When the writer dies, another client must find out where the ledger ends, and
# close it there. But is the writer dead? It may only be slow, paused, or cut off from that client. If it
# comes back and goes on, two clients say where the ledger ends.
#
# No client can find out whether a silent writer is dead. So BookKeeper does not try: it makes sure that
# the answer does not matter.
#
# **At the end you can**
# - say what fencing does, and why it must be durable,
# - say where recovery starts to read, what an answer proves, and what recovery writes back,
# - show a run in which one lost message loses an acknowledged entry, and the rule that prevents it.
#
# **Takes** about 75 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 07.
#
# **The rule.** *Before recovery says where a ledger ends, enough bookies refuse the writer that none of
# its adds can be confirmed any more; and only "no such entry" proves that an entry is not there.*

# %% tags=["parameters"]
entry_count = 8
paused_after = 4  # entries that are confirmed when the writer stops
paused_ms = 20.0

# %%
from dataclasses import replace

from labkit import At, Cluster, On, Read, Recover, Scenario, SpaceTime, Write, XRay, run
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.broken_runs import lost_entries, sentences
from labkit.course.runs.znodes import znodes_of
from labkit.system.check import broken, check_all
from labkit.system.metadata.place import DEFAULT_LEDGERS_ROOT
from labkit.worlds.sim.scenario.faults import BitRot, Crash, Delay, Partition, Pause
from labkit.worlds.sim.workload.publish import Publish

parameters("08", globals())

# %% [markdown]
# ## A picture first
#
# `w` writes, and its process is paused, for example by a long garbage collection. `r` takes it for dead
# and opens the ledger with recovery. Then `w` goes on, and does not know what happened.

# %%
write = Write(entries=entry_count, window=2, every_ms=0.5)
pause = Pause("w", paused_ms, On("lac.advanced", paused_after))
opened = Recover(when=On("node.paused"))
steps = (write, opened)
trace = run(Scenario(Cluster(3), steps, (pause,)))

# %%
SpaceTime(trace)

# %% [markdown]
# **How to read it.** As in lesson 07: lanes are nodes, time runs down. The thick arrows are fencing
# requests. Go down the lane of `r`:
#
# 1. **IN_RECOVERY**, by compare-and-set on the metadata. From now on `w` cannot change its ensemble.
# 2. **Fence.** Each bookie of the last ensemble is asked to refuse the writer from now on, and to report
#    the highest LastAddConfirmed that it has seen. The bookie syncs the fence, then it answers.
# 3. **Read on** from there. Each entry that is found is written back to its write set. These reads
#    fence, too.
# 4. The first entry that cannot have been confirmed is past the end. **CLOSED**, by compare-and-set.
#
# Then `w` wakes up, and its next add is refused.
#
# ### The same in the stored bytes
#
# You will see the ledger's node in ZooKeeper at three moments: while `w` writes, when
# recovery has begun, and after it.
#
# **Predict.** While the ledger is IN_RECOVERY, which `last_entry_id` does its node have?

# %%
my_last = None
# solution
my_last = -1
# end
predict("last_entry_id while IN_RECOVERY", my_last)

# %%
moments = On("ledger.created"), On("recovery.started"), On("ledger.closed")
stored = znodes_of(trace.scenario, moments, root=f"{DEFAULT_LEDGERS_ROOT}/00")
for znodes in stored:
    metadata, version = znodes.ledger()
    print(f"version {version}: {metadata.state.name:<12} last_entry_id {metadata.last_entry_id}")
compare("last_entry_id while IN_RECOVERY", stored[1].ledger()[0].last_entry_id)

# %% [markdown]
# IN_RECOVERY says only that the writer has lost the ledger. Where it ends is known when it is CLOSED. Look
# for both in the bytes:

# %%
chosen = 1  # which of the three; yours to change: 0, 2
XRay(stored[chosen].piece(), width=8)

# %% [markdown]
#
# ## Predict
#
# In the picture `w` is paused for a long time. Now it is paused for only 2 ms: it goes on before the
# bookies are fenced, and for a moment both are at work. Some of its adds are confirmed to `w`. Is the
# ledger's end `"before"` the last entry that is confirmed to `w`, `"at"` it, or `"behind"` it?

# %%
my_end = None
# solution
my_end = "behind"
# end
predict("the ledger's end, from the last entry confirmed to w", my_end)

# %%
short = run(replace(trace.scenario, faults=(replace(pause, for_ms=2.0),)))
last = max(e.entry for e in short.events if e.kind == "lac.advanced" and e.node == "w")
end = next(e.entry for e in short.events if e.kind == "ledger.closed")
where = "before" if end < last else "at" if end == last else "behind"
compare("the ledger's end, from the last entry confirmed to w", where)

# %%
print(f"the last entry confirmed to w: {last}")
print(sentences(short, "node.resumed", "recovery.covered", "ledger.closed", "step.ended"))

# %% [markdown]
# Never *before*: a confirmed entry is promised. *Behind* is allowed: a bookie may have stored an add just
# before its fence, and `w` met the fence before that add was confirmed to it. Recovery found that entry
# and kept it. With too few copies, recovery could have dropped it: it was never confirmed.

# %% [markdown]
# ## Break it: no fencing
#
# The same, but recovery asks and reads like any other reader. The bookies do not learn of it.

# %%
unfenced = run(Scenario(Cluster(3), steps, (pause,), variant="recovery without fencing"))
print(sentences(unfenced, "ledger.closed", "step.ended"))
verdict = broken(check_all(unfenced))[0]
print("lost:", lost_entries(unfenced))

# %%
SpaceTime(unfenced, broken=verdict, follow=min(lost_entries(unfenced), default=None))

# %% [markdown]
# The writer got its acknowledgements, reported success to its users, and learned only at its own close
# that the ledger was already closed. The entries are on the bookies, past the end: no reader will ever see
# them.
#
# ## Exercise 1: whom does a fence keep out?
#
# This is the bookie's decision for each add. `by_recovery` says whether the add has the recovery flag.


# %%
# solution
def refuses(is_fenced, by_recovery):
    return is_fenced and not by_recovery


# learner
# def refuses(is_fenced, by_recovery):
#     """Whether the bookie refuses this add."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("recovery.refuses", refuses)

# %% [markdown]
# ## Exercise 2: from where does recovery read?
#
# Each fenced bookie reports the LastAddConfirmed in the newest entry that it has: `reported` is the list
# of these numbers, from the bookies that have any entry. `first_of_last_segment` is from the metadata.
# Return the last entry that is *certainly* confirmed: recovery starts to read after it.


# %%
# solution
def start(reported, first_of_last_segment):
    return max([*reported, first_of_last_segment - 1])


# learner
# def start(reported, first_of_last_segment):
#     """The last entry that is certainly confirmed; -1 if none is."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("recovery.start", start)

# %% [markdown]
# Why does the metadata matter here? The bookies of a new ensemble may have no entry at all. This answer
# forgets that. The public TLA+ specification found the same mistake in BookKeeper.


# %% tags=["refused"]
def only_what_is_reported(reported, first_of_last_segment):
    return max(reported, default=-1)


check("recovery.start", only_what_is_reported, must_pass=False)

# %% [markdown]
# ## One lost message
#
# Three bookies, Qw 3, Qa 2, one entry. `b0` has it; the adds to `b1` and `b2` are slow. `r` recovers the
# ledger, and its fencing request to `b2` gets lost. Every random decision has a name here: `lose r>b2 3`
# decides about message 3 from `r` to `b2`, counted from 0. Message 0 of `w` opens the connection, so
# message 1 is the add.
#
# `b0` and `b1` are fenced. Is that enough?

# %%
slow_answer = Delay("b0", "r", 30.0, when=On("recovery.covered"))
one = (Write(entries=1), Read(when=At(4.0)), Recover(when=At(9.0)))
decisions = {"delay w>b1 1": 40.0, "delay w>b2 1": 8.0, "lose r>b2 3": 1.0}
quiet = Scenario(Cluster(3), one, (slow_answer,), decisions=decisions)
fine = run(quiet)
print(sentences(fine, "fence.answered", "recovery.covered", "ledger.closed"))

# %% [markdown]
# It is enough: an entry needs two acknowledgements, and only one bookie is left that would give one.
# That is *coverage*, from lesson 05.
#
# Now recovery reads entry 0. `b1` says no, `b2` says no; `b0` is slow. Two of three deny it, so it cannot
# have two acknowledgements. The ledger ends before it.
#
# But `b2` was never fenced. What if the slow add arrives *after* its no? In BookKeeper before 4.14 the
# reads of recovery did not fence (**#2614**). This variant does the same:

# %%
old = run(replace(quiet, variant="no fencing on recovery reads"))
verdict = broken(check_all(old))[0]
print(verdict.reason)

# %%
SpaceTime(old, broken=verdict, window_ms=(9.0, 30.0))

# %% [markdown]
# `b2` said "no such entry", and then it stored the entry. Two acknowledgements, from `b0` and `b2`: the
# entry is confirmed, and past the end. Each of the three bookies did what it was asked to do. And the
# writer had no reason to look: its connections are older than the recovery.
#
# The fix is small: the reads fence as well. Then a bookie that has said no sticks to it. Here are the
# same faults with the real code:

# %%
SpaceTime(fine, window_ms=(9.0, 30.0))

# %% [markdown]
# The read fences `b2`, and the slow add is refused. The entry was never confirmed, so losing it is
# allowed.
#
# ## Exercise 3: what is a proof?
#
# Recovery counts the bookies that deny an entry. Which answers count as a denial? Your function gets the
# name of the error that came instead of the entry:
#
# - `BKNoSuchEntryException`, `BKNoSuchLedgerExistsException`: the bookie looked, and does not have it
# - `BKTimeoutException`: five seconds of silence
# - `BKBookieHandleNotAvailableException`: no connection
# - `BKReadException`: the bookie could not read what it has (EIO)
# - `BKDigestMatchException`: the entry that came has a wrong digest


# %%
# solution
def denies(error):
    return error in ("BKNoSuchEntryException", "BKNoSuchLedgerExistsException")


# learner
# def denies(error):
#     """Whether this answer proves that the bookie does not have the entry."""
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("recovery.denies", denies)

# %% [markdown]
# ## "Could not read" is not "no such entry"
#
# A bookie can make the same mistake. In BookKeeper **#2908** a bookie with a damaged entry log answered
# "no such entry". Here `b0` and `b1` have acknowledged the last entries, `b2` was cut off. Then bits
# flip in the log of `b1`, and `b0` answers late.

# %%
story = (Write(entries=4, window=1, close=False), Recover(when=At(500.0)))
cut = Partition(("w",), ("b2",), when=On("add.pushed", 3))
restart = (Crash("w", when=At(18.0)), Crash("b1", down_ms=50.0, when=At(300.0)))
rot = [BitRot("b1", "entry log", part / 20, At(400.0)) for part in range(20)]
weather = (cut, *restart, *rot, Delay("b0", "r", 5.0))
damaged = Scenario(Cluster(3), story, weather)

# %% [markdown]
# **Predict.** Which entries are lost when `b1` denies what it cannot read? Give a list of their ids.

# %%
my_ids = None
# solution
my_ids = [2, 3]
# end
predict("lost by a bookie that denies", my_ids)

# %%
denied = run(replace(damaged, variant="could not read taken for no such entry"))
compare("lost by a bookie that denies", lost_entries(denied))

# %%
honest = run(damaged)
for name, each in (("denies", denied), ("tells the truth", honest)):
    ends = [e.entry for e in each.events if e.kind == "ledger.closed"]
    print(f"b1 {name}: closed at {ends[0]}, lost {lost_entries(each)}")

# %% [markdown]
# One error code makes the difference. An answer that proves nothing may cost time: recovery waits for
# `b0`, or fails and is tried again. An answer that claims too much costs entries.
#
# ## Why the fence must be durable
#
# A bookie answers a fencing request only when the fence is synced in its journal. This variant keeps it
# in memory. Which promise breaks?

# %%
in_memory = run(Scenario(Cluster(3), steps, (pause,), variant="fence not persisted"))
print(broken(check_all(in_memory))[0].name)
print(broken(check_all(in_memory))[0].reason)

# %% [markdown]
# Nothing is lost in this run. But a bookie that restarts now has forgotten the fence, and takes the
# writer's adds again. The check does not wait for that: it demands the sync before the answer.
#
# ## Two recoveries at once
#
# Nothing stops two clients from recovering the same ledger. Both fence, both read, both write back the
# same entries under the same ids. The first to close decides; the other finds CLOSED and adopts its end.

# %%
both = (write, opened, Recover(client="s", when=On("fence.sent", 2)))
pair = run(Scenario(Cluster(3), both, (pause,)))
print(sentences(pair, "recovery.started", "ledger.closed", "recovery.ended"))
print("broken promises:", broken(check_all(pair)))

# %%
SpaceTime(pair, entries=(paused_after, entry_count))

# %% [markdown]
# ## Two brokers and one topic
#
# In Pulsar the writer is a broker, and the other client is the broker that takes its topic over. Two
# brokers, a producer that sends a message every 200 ms, and the owner is killed.
#
# **Predict.** The new owner finds the topic's last ledger open. Does it `"go on"` in it, or begin a
# `"new ledger"`?

# %%
my_choice = None
# solution
my_choice = "new ledger"
# end
predict("the new owner's first message goes", my_choice)

# %%
killed = "broker1"  # the owner; yours to change: broker0 owns nothing
publish = Publish(messages=6, every_ms=200)
brokers = Cluster(3, brokers=2)
moved = run(Scenario(brokers, (publish,), (Crash(killed, when=At(500)),), limit_s=30))
told = "bundle.acquired", "node.killed", "recovery.ended", "ledger.closed", "ledger.created"
print(sentences(moved, *told, "message.acked"))

# %%
receipts = [e for e in moved.events if e.kind == "message.acked"]
after = [e for e in receipts if e.time_us > 500_000]
goes_on = after[0].ledger == receipts[0].ledger
compare("the new owner's first message goes", "go on" if goes_on else "new ledger")

# %% [markdown]
# Ownership is an ephemeral node, so it ends some seconds after the broker. But it is only a hint: a
# broker that was merely paused still believes that it owns the topic. What keeps it out is the fence on
# the old ledger. So the new owner never goes on in it: it recovers the ledger, which closes it, and
# begins the next one.
#
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `LedgerRecovery.run` | `ReadOnlyLedgerHandle.recover`, `LedgerRecoveryOp` |
# | fence = a bit in the index and a journal record | the same (`BookieImpl`, entry id -0x2000 in the journal) |
# | no answer to a fencing read before the fence is synced | a *negative* answer does not wait for it: a power cut at that moment can undo the fence |
# | start = max(LastAddConfirmed reported, first entry of the last segment - 1) | the same since 4.14 |
# | an entry is lost after Qw - Qa + 1 times "no such entry" | the same (`PendingReadOp`) |
# | bookies replaced during recovery are published when it closes | the same: another recovery must look where the writer wrote |
# | an emptied bookie forgets its fences: over a new connection, an acknowledgement counts only if the metadata says OPEN | every one counts (#4812) |
# | the old writer ends with `BKLedgerFencedException` | the same; its close then writes CLOSED at its own LastAddConfirmed if no client has |
#
# Known defects:
# - **#2614**: fencing the reads of LastAddConfirmed alone is not enough; fixed in 4.14.
# - **#2908**: a damaged entry log was answered with "no such entry", and recovery cut the ledger.
# - **#3952**: which bookies count as "unknown": lesson 05.

# %% [markdown]
# ## Questions
#
# <details><summary>Entry 9 was added, one bookie has it and no other acknowledged it. May recovery drop it?
# May it keep it?</summary>
#
# Both. With Qa 2 it was never confirmed. If recovery finds it first, it is written back and kept; if
# recovery gets enough denials first, the ledger ends before it.
# </details>
#
# <details><summary>Why does recovery write entries back that it found?</summary>
#
# The copy that it found may be the only one. Once the ledger is closed after it, the entry is promised
# to every reader, so it must have its acknowledgements before that.
# </details>
#
# <details><summary>Two of three bookies are down, Qw 3, Qa 2. What does recovery do?</summary>
#
# It fails, and the ledger stays IN_RECOVERY. The third bookie's no proves nothing about the other two.
# The next client to open the ledger tries again. Waiting is better than losing entries.
# </details>
#
# <details><summary>Why not simply ask the writer whether it still lives?</summary>
#
# Its silence can have many causes: it is slow, paused, or cut off from you but not from the bookies. And
# its answer may be wrong by the time it arrives. A fence holds whatever the writer does.
# </details>
#
# **Next:** [09 auditor and re-replication](09-re-replication.ipynb): a bookie is gone for good. Or
# [14 break the protocol](14-break-the-protocol.ipynb): look for bugs in all this.
