# %% [markdown]
# # 08 · What if there are two writers?
#
# A ledger has one writer. When the writer dies, another client must find out where the ledger ends and
# close it there. But is the writer really dead? It may only be slow, paused, or cut off from that client.
# If it comes back and continues, two clients will be deciding where the ledger ends.
#
# A client cannot find out whether an unresponsive writer is dead. BookKeeper does not even try. Instead, it
# makes sure that the answer does not matter.
#
# **At the end you can**
# - explain what fencing does, and why it must be durable,
# - say where recovery starts reading, what a response proves, and what recovery writes back,
# - show a run in which losing a single message leads to the loss of an acknowledged entry, and name the
#   rule that prevents it,
# - run your own client, which survives storms in which bookies and writers die.
#
# **Takes** about 60 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson
# 07. Allow about 180 more minutes for writing the two parts, now or at home.
#
# **The rule.** *Before recovery decides where a ledger ends, it fences enough bookies to prevent the writer
# from confirming any further adds. It drops an entry only if the entry cannot have been confirmed.*

# %% tags=["parameters"]
entry_count = 8
paused_after = 4  # number of confirmed entries when the writer is paused
paused_ms = 20.0

# %%
from dataclasses import replace

from labkit.course.lessons import (
    DEFAULT_LEDGERS_ROOT,
    At,
    Cluster,
    Crash,
    Delay,
    On,
    Pause,
    Publish,
    Read,
    Recover,
    Scenario,
    SpaceTime,
    Write,
    XRay,
    broken,
    check_all,
    closed_at,
    compare,
    damaged_copy,
    end_of_ledger,
    last_confirmed,
    ledger_of_new_owner,
    lost_entries,
    parameters,
    predict,
    rejected_adds,
    run,
    sentences,
    znodes_of,
)
from labkit.course.workshop import begin, check, hint, overview, play, step

parameters("08", globals())

# %% [markdown]
# ## A picture first
#
# `w` writes, and then its process is paused, for example by a long garbage collection. `r` assumes that `w`
# is dead and opens the ledger with recovery. Then `w` resumes, unaware of what has happened.

# %%
write = Write(entries=entry_count, window=2, every_ms=0.5)
pause = Pause("w", paused_ms, On("lac.advanced", paused_after))
opened = Recover(when=On("node.paused"))
steps = (write, opened)
trace = run(Scenario(Cluster(3), steps, (pause,)))

# %%
SpaceTime(trace)

# %% [markdown]
# **How to read the diagram.** As in lesson 07, lanes are nodes and time runs downwards. The thick arrows
# are fencing requests. Follow the lane of `r`:
#
# 1. `r` sets the ledger's state to **IN_RECOVERY**, with a compare-and-set on the metadata. From now on,
#    `w` cannot change its ensemble.
# 2. `r` sends a **fence** request to each bookie of the last ensemble. From now on, the bookie must reject
#    adds from the writer. It syncs the fence, and then responds with the highest LastAddConfirmed that it
#    has seen.
# 3. `r` **reads entries** from there on. It writes each entry that it finds back to the entry's write set.
#    These reads fence the bookies, too.
# 4. The ledger ends before the first entry that cannot have been confirmed. `r` sets the state to
#    **CLOSED**, again with a compare-and-set.
#
# Then `w` resumes, and its next add is rejected.
#
# ### The same in the stored bytes
#
# Now look at the ledger's znode in ZooKeeper at three moments: while `w` is writing, after recovery has
# started, and after the ledger has been closed.
#
# **Predict.** What is the `last_entry_id` in the znode while the ledger is IN_RECOVERY?

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
# IN_RECOVERY only means that the writer has lost the ledger. The metadata does not record the end of the
# ledger until the ledger is CLOSED. Find both fields in the bytes:

# %%
chosen = 1  # the second of the three moments; yours to change: 0, 2
XRay(stored[chosen].piece(), width=8)

# %% [markdown]
#
# ## Predict
#
# In the picture, `w` is paused for a long time. Now it is paused for only 2 ms. It resumes before the
# bookies are fenced, so for a moment both clients are active and `w` still gets confirmations. Is the
# ledger's last entry `"before"` the last entry confirmed to `w`, `"at"` it, or `"after"` it?

# %%
my_end = None
# solution
my_end = "after"
# end
predict("the ledger's end, relative to the last entry confirmed to w", my_end)

# %%
short = run(replace(trace.scenario, faults=(replace(pause, for_ms=2.0),)))
compare("the ledger's end, relative to the last entry confirmed to w", end_of_ledger(short))

# %%
print(f"the last entry confirmed to w: {last_confirmed(short)}")
print(sentences(short, "node.resumed", "recovery.covered", "ledger.closed", "step.ended"))

# %% [markdown]
# The ledger must never end *before* the last confirmed entry, because confirmed entries must not be lost.
# It can end *after* this entry. Here, bookies stored an add just before they were fenced, and `w` found out
# about the fence before it could confirm that add. Recovery found the entry and kept it. With too few
# copies, recovery could have dropped the entry, because it was never confirmed.

# %% [markdown]
# ## Break it: no fencing
#
# In this variant, recovery reads like any other reader, without fencing the bookies.

# %%
unfenced = run(Scenario(Cluster(3), steps, (pause,), variant="recovery without fencing"))
print(sentences(unfenced, "ledger.closed", "step.ended"))
verdict = broken(check_all(unfenced))[0]
print("lost:", lost_entries(unfenced))

# %%
SpaceTime(unfenced, broken=verdict, follow=min(lost_entries(unfenced), default=None))

# %% [markdown]
# The writer received its acknowledgements and reported success to its users. It did not learn that another
# client had closed the ledger until it tried to close the ledger itself. The entries are on the bookies but
# past the end of the ledger, so readers will never see them.
#
# ## Whom does a fence keep out?
#
# When recovery sends an add, it sets the **recovery flag**. So for each add, a bookie knows whether the
# ledger is fenced and whether recovery sent the add:
#
# - A: the ledger is not fenced, and its writer sends the add
# - B: the ledger is not fenced, and recovery sends the add
# - C: the ledger is fenced, and its writer sends the add
# - D: the ledger is fenced, and recovery sends the add
#
# **Predict.** Which of these adds does the bookie reject? Give a list of letters, such as `["A", "D"]`.

# %%
my_letters = None
# solution
my_letters = ["C"]
# end
predict("adds that a bookie rejects", my_letters)

# %%
compare("adds that a bookie rejects", rejected_adds())

# %% [markdown]
# A fence does not reject adds from recovery, because recovery has to write entries back to the bookies that
# it has fenced.
#
# ## Your turn: stop a writer
#
# You continue with `myclient.py` from [lesson 07](07-ensemble-change.ipynb). The new steps use your code
# from steps 1 to 4, so if you skipped any of these, write them first.

# %%
# solution
from labkit.course.lessons import track

my_file = track("client").solution
# learner
# my_file = begin("client")
# end
overview("client", my_file)

# %% [markdown]
# A writer stops in one of two ways: its owner closes the ledger, or another client takes over the ledger.
# In both cases, adds may be in flight.

# %%
step("client", 5)

# %% tags=["exercise"]
check("client", 5, my_file, seeds=6)

# %% [markdown]
# *Stuck? Run `hint("client", 5)` in a new cell for the first of three hints.*
#
# ## One lost message
#
# There are three bookies (Qw = 3, Qa = 2) and one entry. `b0` has acknowledged the entry, but the adds to
# `b1` and `b2` are slow. `r` recovers the ledger, and its fencing request to `b2` is lost. Every random
# decision of the simulation has a name: `lose r>b2 3` decides whether message 3 from `r` to `b2` is lost,
# counting from 0. Message 0 from `w` opens the connection, so the add is message 1.
#
# `b0` and `b1` have been fenced. Is that enough?

# %%
slow_answer = Delay("b0", "r", 30.0, when=On("recovery.covered"))
one = (Write(entries=1), Read(when=At(4.0)), Recover(when=At(9.0)))
decisions = {"delay w>b1 1": 40.0, "delay w>b2 1": 8.0, "lose r>b2 3": 1.0}
quiet = Scenario(Cluster(3), one, (slow_answer,), decisions=decisions)
fine = run(quiet)
print(sentences(fine, "fence.answered", "recovery.covered", "ledger.closed"))

# %% [markdown]
# It is enough to start reading. Because of *coverage* (lesson 05), any two bookies that could acknowledge
# an entry include at least one fenced bookie. So adds that reach the bookies from now on cannot be
# confirmed. But this argument does not cover an add that `b0` acknowledged before it was fenced.
#
# Now recovery reads entry 0. `b1` and `b2` respond "no such entry", and `b0` is slow. Two of three bookies
# deny the entry, so it cannot have two acknowledgements. Recovery closes the ledger before this entry.
#
# But `b2` was never fenced. What if the slow add arrives *after* its denial? In BookKeeper before 4.14,
# recovery's reads did not fence the bookies (**#2614**). This variant does the same:

# %%
old = run(replace(quiet, variant="no fencing on recovery reads"))
verdict = broken(check_all(old))[0]
print(verdict.reason)

# %%
SpaceTime(old, broken=verdict, window_ms=(9.0, 30.0))

# %% [markdown]
# `b2` responded "no such entry" and then stored the entry. The acknowledgements from `b0` and `b2` confirm
# the entry, even though it is past the end of the ledger. Each bookie did exactly what it was told to do.
# The writer did not notice anything either. It checks the ledger's state when it opens a new connection,
# and it opened its connections before the recovery.
#
# The fix is simple: recovery reads must fence the bookie, too. A bookie that has denied an entry then
# rejects the writer's add for it. Here is the real code with the same faults:

# %%
SpaceTime(fine, window_ms=(9.0, 30.0))

# %% [markdown]
# The read fences `b2`, so `b2` rejects the slow add. The entry is never confirmed, so recovery may drop it.
#
# ## "Could not read" is not "no such entry"
#
# Bookies can confuse the two as well. In BookKeeper **#2908**, a bookie with a damaged entry log responded
# "no such entry". Here `b0` and `b1` have acknowledged the last entries, while `b2` was cut off. Then bits
# flip in the entry log of `b1`, and `b0` is slow to respond.

# %%
damaged = damaged_copy()

# %% [markdown]
# **Predict.** Which entries are lost if `b1` responds "no such entry" for entries that it cannot read? Give
# a list of entry ids.

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
for response, each in (('"no such entry"', denied), ('"cannot read"', honest)):
    print(f"b1 responds {response}: closed at {closed_at(each)}, lost {lost_entries(each)}")

# %% [markdown]
# One error code makes all the difference. A response that proves nothing costs only time, because recovery
# waits for `b0`, or fails and is retried. A response that claims too much loses entries.
#
# ## Why the fence must be durable
#
# A bookie responds to a fencing request only after it has synced the fence to its journal. This variant
# keeps the fence in memory. Which promise does it break?

# %%
in_memory = run(Scenario(Cluster(3), steps, (pause,), variant="fence not persisted"))
print(broken(check_all(in_memory))[0].name)
print(broken(check_all(in_memory))[0].reason)

# %% [markdown]
# No entries are lost in this run. But if a bookie restarted now, it would forget the fence and accept the
# writer's adds again. The check does not wait for this to happen. It requires the bookie to sync the fence
# before it responds.
#
# ## Two recoveries at once
#
# Two clients can recover the same ledger at the same time. Both fence the bookies, both read, and both
# write back entries. Entries with the same id have the same contents, so the recoveries cannot harm each
# other. The first client to close the ledger decides where it ends. The other one finds that the ledger is
# CLOSED and accepts that end.

# %%
both = (write, opened, Recover(client="s", when=On("fence.sent", 2)))
pair = run(Scenario(Cluster(3), both, (pause,)))
print(sentences(pair, "recovery.started", "ledger.closed", "recovery.ended"))
print("broken promises:", broken(check_all(pair)))

# %%
SpaceTime(pair, entries=(paused_after, entry_count))

# %% [markdown]
# ## Your turn: recover a ledger
#
# Now write the recovery. It makes three decisions:
#
# - *Where does recovery start to read?* Each fenced bookie reports the LastAddConfirmed in its newest
#   entry. But the bookies of a new ensemble may not have any entries yet, so the metadata matters, too.
#   BookKeeper once ignored the metadata here, and the public TLA+ specification found the bug.
# - *Which responses deny an entry?* These errors can arrive instead of an entry: `BKNoSuchEntryException` and
#   `BKNoSuchLedgerExistsException`, `BKTimeoutException` (no response within five seconds),
#   `BKBookieHandleNotAvailableException` (no connection), `BKReadException` (the disk returned an error) and
#   `BKDigestMatchException` (the entry arrived damaged).
# - *How many denials are enough?* You decided this in [lesson 05](05-ensembles.ipynb), section 6.

# %%
step("client", 6)

# %% tags=["exercise"]
check("client", 6, my_file, seeds=6)

# %% [markdown]
# *Stuck? Run `hint("client", 6)` in a new cell.*
#
# ### Play with your client
#
# Here you choose which message arrives next, and your code reacts. Your writer adds one entry while your
# `recover` recovers the same ledger. Try to lose an entry.

# %%
# solution
play("client", file=my_file)
# learner
# # play("client", file=my_file)  # after the first step that passes
# end

# %% [markdown]
# ## Two brokers and one topic
#
# In Pulsar, the writer is a broker, and the other client is the broker that takes over its topic. Here, you
# run two brokers and a producer that sends a message every 200 ms. Then you kill the topic's owner.
#
# **Predict.** The new owner finds that the topic's last ledger is still open. Does it `"continue"` in this
# ledger, or does it start a `"new ledger"`?

# %%
my_choice = None
# solution
my_choice = "new ledger"
# end
predict("the ledger of the new owner's first message", my_choice)

# %%
killed = "broker1"  # the owner; yours to change: broker0 owns nothing
publish = Publish(messages=6, every_ms=200)
brokers = Cluster(3, brokers=2)
moved = run(Scenario(brokers, (publish,), (Crash(killed, when=At(500)),), limit_s=30))
told = "bundle.acquired", "node.killed", "recovery.ended", "ledger.closed", "ledger.created"
print(sentences(moved, *told, "message.acked"))

# %%
compare("the ledger of the new owner's first message", ledger_of_new_owner(moved))

# %% [markdown]
# Ownership is an ephemeral znode, so it disappears a few seconds after the broker dies. But it is only a
# hint. A broker that was merely paused still believes that it owns the topic. The fence on the old ledger
# keeps it out. So the new owner recovers and closes the old ledger before it starts a new one.
#
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `LedgerRecovery.run` | `ReadOnlyLedgerHandle.recover`, `LedgerRecoveryOp` |
# | a fence is a bit in the index and a journal record | the same (`BookieImpl`, entry id -0x2000 in the journal) |
# | a fencing read gets no response before the fence has been synced | a *negative* response does not wait for the sync, so a power failure can undo the fence |
# | recovery starts after max(LastAddConfirmed reported, first entry of the last segment - 1) | the same since 4.14 |
# | an entry counts as lost after Qw - Qa + 1 "no such entry" responses | the same (`PendingReadOp`) |
# | recovery adds replacement bookies to the metadata when it closes the ledger | the same |
# | a bookie that loses its disks also loses its fences, so an acknowledgement over a new connection counts only if the metadata is still OPEN | every acknowledgement counts (#4812) |
# | the old writer fails with `BKLedgerFencedException` | the same; then it closes the ledger at its own LastAddConfirmed, unless another client has closed the ledger |
#
# Known issues:
# - **#2614**: recovery fenced bookies only when it read LastAddConfirmed; fixed in 4.14.
# - **#2908**: a bookie with a damaged entry log responded "no such entry", and recovery truncated the ledger.
# - **#3952**: which bookies count as "unknown" (lesson 05).

# %% [markdown]
# ## Questions
#
# <details><summary>Only one bookie has entry 9, and Qa is 2. Can recovery drop the entry? Can it keep
# it?</summary>
#
# It can do either, because the entry was never confirmed. If recovery finds the entry first, it keeps the
# entry and writes it back. If it gets enough denials first, it closes the ledger before the entry.
# </details>
#
# <details><summary>Why does recovery write back the entries that it finds?</summary>
#
# The copy that it found may be the only one. Once the ledger is closed, every reader must be able to read
# the entry. So recovery collects enough acknowledgements for the entry before it closes the ledger.
# </details>
#
# <details><summary>Two of three bookies are down, Qw is 3 and Qa is 2. What does recovery do?</summary>
#
# It fails, and the ledger remains IN_RECOVERY. A denial from the third bookie proves nothing about the
# other two. The next client that opens the ledger with recovery tries again. Waiting is better than losing
# entries.
# </details>
#
# <details><summary>Why not simply ask the writer whether it is still alive?</summary>
#
# It may not respond for many reasons: it is slow, paused, or cut off from you but not from the bookies. And
# by the time a response arrives, it may be outdated. A fence works no matter what the writer does.
# </details>
#
# **Next:** [09 auditor and re-replication](09-re-replication.ipynb). A bookie is lost for good.
# Alternatively, continue with [14 break the protocol](14-break-the-protocol.ipynb), where you look for bugs
# in all of this.
