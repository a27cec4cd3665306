# %% [markdown]
# # 17 · How do you build a client?
#
# A bookie stores whatever it receives. The client is responsible for everything else that BookKeeper promises: which bookies store an entry, when it is confirmed, how far a reader may read, and where a ledger ends if its writer has died. In lessons 06 to 08, you wrote such a client, step by step, in the file `myclient.py`. Here you complete this file and write a program with it that you run in a live cluster. If you skipped those parts, you can write all of them here.
#
# **At the end you can** write a client whose confirmed entries survive the loss of bookies and writers, and find the run in which a client that looks correct loses an entry.
#
# **Takes** about 480 minutes. **Needs** only Python, and also works in a browser tab. The last step needs a terminal, Java and Linux or macOS. **Prerequisite:** lesson 08. If you wrote steps 1 to 6 in lessons 06 to 08, allow about 90 minutes.
#
# > **The rule.** *A confirmed entry is on at least Qa bookies that the metadata lists, and no two clients disagree about where a ledger ends.*

# %% tags=["parameters"]
entry_count = 6  # entries in the pictures
seed_count = 6  # storms per check; `labkit workshop` runs 200
dies_after = 3  # number of confirmed entries when a bookie or a writer dies: 3 or 6

# %%
from dataclasses import replace

from labkit.course.lessons import (
    At,
    Crash,
    On,
    Recover,
    SpaceTime,
    compare,
    every_order,
    parameters,
    predict,
    run,
    runs,
    timeline,
    track,
)

# %%
from labkit.course.workshop import begin, check, hint, overview, play, step

parameters("17", globals())

# %% [markdown]
# ## The picture: what you will build
#
# A writer `w` adds entries to a ledger on three bookies, with two copies of each entry. `w` dies, and a client `r` recovers the ledger. You will write the code for everything in the lanes of `w` and `r`.

# %%
write = runs.write(entry_count, (3, 2, 2), window=2)
died = Crash("w", when=On("lac.advanced", dies_after))
handed_over = run(runs.quiet(write, Recover(when=At(30.0)), faults=(died,)))
SpaceTime(handed_over)

# %% [markdown]
# | step | you write | what it decides |
# | --- | --- | --- |
# | 1 | `write_set`, `Writer.add` | which bookies store an entry, and when it is confirmed |
# | 2 | `Reader.read_last_add_confirmed` | how far a reader may read |
# | 3 | `Reader.read_entry` | what a response proves |
# | 4 | more of `Writer` | which bookie replaces a failed one |
# | 5 | `Writer.close` | where a ledger ends |
# | 6 | `recover` | where a ledger ends if its writer has died |
# | 7 | `create_ledger`, `append_all`, `take_over` | what a program in a live cluster can promise |
#
# With the class `Cluster`, you can send requests to individual bookies, and read and change the ledger's versioned metadata. The beginning of `myclient.py` lists its methods. Every step has the same structure: the **contract**, whose lines begin with "Always", a picture, the **red test**, which fails until your code passes it, and the check. If the check refuses your code, it names the line of the contract that your code violates. `hint("client", 1)` gives up to three hints for step 1. Steps 4 and 6 are long, so their checks list small tests that turn green one by one. Start with the first red one. The check runs your client in small clusters with faults, with a few messages in every possible order, and in storms of random faults. Then labkit's own client (`epilogue` in traces) reads the entries that yours stored. Finally, the check compares your client's requests, or its simulated time, with labkit's.
#
# ## Your file
#
# The next cell creates `myclient.py` in this notebook's directory, unless it already exists. Replace each `raise NotImplementedError` with your code, save the file, and run the step's check.

# %%
# solution
my_file = track("client").solution
# learner
# my_file = begin("client")
# end
overview("client", my_file)

# %% [markdown]
# ## Step 1 · Append to a quorum

# %%
step("client", 1)

# %%
SpaceTime(run(runs.ONE_IS_LATE))

# %% [markdown]
# Here, the messages to and from some bookies are slow, so acknowledgements arrive out of order. Entries are still confirmed in order.
#
# **Predict.** A writer adds 12 entries with E=5, Qw=3, Qa=2 and no faults. How many add requests does it send to bookies?

# %%
# solution
predict("requests for 12 adds", 36)
# learner
# predict("requests for 12 adds", None)
# end

# %%
striped = run(runs.STRIPED)
sent = [event for event in striped.events if (event.kind, event.node) == ("add.sent", "w")]
compare("requests for 12 adds", len(sent))

# %% [markdown]
# Write `write_set` and `Writer.add`, and then run their check:

# %% tags=["exercise"]
check("client", 1, my_file, seeds=seed_count)

# %% [markdown]
# ### What a refusal looks like
#
# If the check refuses your code, you see a run that opens where it broke the promise. Here is labkit's own client with a deliberate bug: it confirms an entry as soon as one bookie has acknowledged it. Step backwards and look for the missing acknowledgement. The search found this run by trying the messages of two adds in every order.

# %%
hasty = replace(runs.TWO_ADDS, variant="ack after one bookie")
found = every_order(hasty, stop_at=1, on_progress=lambda states, broken: None)
timeline(found.findings[0].scenario)

# %% [markdown]
# ## Step 2 · How far a ledger can be read

# %%
step("client", 2)

# %%
SpaceTime(run(runs.FOLLOWED))

# %% [markdown]
# Only the writer knows which entries are confirmed. Bookies do not. So the writer puts its current LastAddConfirmed into each entry, and a reader asks the bookies for their last entries. A response may come from a bookie that has missed every entry, and some responses may never arrive.
#
# Set `last_add_confirmed` in `Writer.add`, write `Reader.read_last_add_confirmed`, and then run their check:

# %% tags=["exercise"]
check("client", 2, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 3 · Read an entry

# %%
step("client", 3)

# %%
SpaceTime(run(runs.some_are_silent()))

# %% [markdown]
# Two of three bookies are down, and the third one has never heard of the ledger. "No such entry" proves that this bookie has no copy, but silence does not prove anything. The reader's caller must be able to tell these two cases apart.
#
# Write `Reader.read_entry`, and then run its check:

# %% tags=["exercise"]
check("client", 3, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 4 · Replace a failed bookie

# %%
step("client", 4)

# %%
dies = Crash("b1", when=On("lac.advanced", dies_after))
changed = run(runs.quiet(runs.write(8, (3, 2, 2), window=3), bookies=4, faults=(dies,)))
SpaceTime(changed)

# %% [markdown]
# **Predict.** At which entry does the new ensemble start?

# %%
# solution
predict("first entry of the new ensemble", dies_after)
# learner
# predict("first entry of the new ensemble", None)
# end

# %%
begun = [event.entry for event in changed.events if event.kind == "ensemble.set"]
compare("first entry of the new ensemble", begun[-1])

# %% [markdown]
# Acknowledgements continue to arrive while the new metadata is being stored. If you confirmed an entry now, it would be on the old ensemble, but the metadata would say that it is on the new one.
#
# Write the ensemble change, and then run its check:

# %% tags=["exercise"]
check("client", 4, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 5 · Close, and be fenced

# %%
step("client", 5)

# %%
SpaceTime(run(runs.TAKEN))

# %% [markdown]
# The writer is only paused. In the meantime, another client recovers its ledger. Then the writer resumes. Everything that it does from now on must fail, but its confirmed entries must not be lost.
#
# Write `Writer.close` and the code that stops a fenced writer, and then run their check:

# %% tags=["exercise"]
check("client", 5, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 6 · Recover a ledger

# %%
step("client", 6)

# %%
SpaceTime(run(runs.lost_fence()))

# %% [markdown]
# One bookie has the last entry, one bookie receives it late, one bookie never receives it, and a fencing request is lost. Does this ledger end before or after the entry? Either may be right. But once a client has decided, no other client may ever decide differently.
#
# Write `recover`, and then run its check:

# %% tags=["exercise"]
check("client", 6, my_file, seeds=seed_count)

# %% [markdown]
# ## Play with your client
#
# Here you choose which message arrives next, and your code reacts. Your writer adds one entry while your `recover` recovers the same ledger. `play` uses each of your parts whose first test passes, and labkit's own for the rest. To play any other `Scenario`, pass it as the second argument. **Record this** gives you your moves as Python code, so that you can repeat them after you change your file.

# %%
# solution
play("client", file=my_file)
# learner
# # play("client", file=my_file)  # after the first step that passes
# end

# %% [markdown]
# ## Step 7 · A program in a live cluster

# %%
step("client", 7)

# %%
SpaceTime(run(runs.TAKEN))

# %% [markdown]
# Until now, the checks have created the ledger and called your `Writer`. Now you write the program around it. The program chooses an ensemble, stores the metadata, keeps several adds in flight, and takes over a ledger whose writer does not respond. You do not change your code from steps 1 to 6, but now it runs in the real world. ZooKeeper, four bookies and your program are processes, and the faults are signals.
#
# | fault | what must hold |
# | --- | --- |
# | a bookie receives SIGKILL in the middle of a write | the program continues, and the metadata in ZooKeeper lists another bookie instead |
# | your program receives SIGSTOP, and a second one takes over its ledger | every confirmed entry is in the ledger |
# | the first program receives SIGCONT | its adds are rejected, and it exits with an error |
#
# **Predict.** The picture above shows the same situation: a writer is paused, another client recovers its ledger, and the writer resumes. How many entries does the writer confirm after the ledger has been closed?

# %%
# solution
predict("entries confirmed after the close", 1)
# learner
# predict("entries confirmed after the close", None)
# end

# %%
taken = run(runs.TAKEN)
closed = next(event.seq for event in taken.events if event.kind == "ledger.closed")
late = [
    event for event in taken.events[closed:] if (event.kind, event.node) == ("lac.advanced", "w")
]
compare("entries confirmed after the close", len(late))

# %% [markdown]
# An entry's acknowledgements may already be in flight when the bookies are fenced. The writer confirms this entry late. That is allowed, because recovery has found the entry. All that matters is that every confirmed entry is in the ledger.
#
# Write `create_ledger`, `append_all` and `take_over`. This step starts processes, so it cannot run in a browser tab. On your own machine or on Binder, run these commands in a terminal, in the directory of your file:
#
# ```
# labkit workshop client        every step, each with 200 seeds
# labkit workshop client 7      your program as processes of a live cluster
# ```
#
# labkit's client and shell then read what your program wrote. The ledgers have BookKeeper's own format, so `bookkeeper shell ledgermetadata` and `readledger` can read them, too, and `readledger -r` can recover the ledger of your stopped program. You can also start a cluster that keeps running (`labkit local`):
#
# ```
# seq 1000 | labkit client --zookeeper HOST:PORT write      ledger 0, then each entry once it is confirmed
# labkit client --zookeeper HOST:PORT take 0                recovers the ledger and prints it
# labkit shell --zookeeper HOST:PORT ledgermetadata -l 0    where its entries are
# ```
#
# ## Challenges
#
# The checks do not cover these challenges. Each one is a feature of the real client that your client lacks.

# %%
for each in track("client").steps:
    print(f"{each.number} {each.name}")
    for challenge in each.challenges:
        print(f"  - {challenge}")

# %% [markdown]
# ## What the real system does
#
# | yours | in BookKeeper |
# | --- | --- |
# | `write_set` | `client/RoundRobinDistributionSchedule.java` |
# | `Writer.add`, `PendingAdd` | `client/LedgerHandle.java`, `client/PendingAddOp.java` |
# | `Reader.read_last_add_confirmed` | `client/ReadLastConfirmedOp.java`, the schedule's coverage set |
# | `Reader.read_entry` | `client/PendingReadOp.java` |
# | the ensemble change | `LedgerHandle.ensembleChangeLoop`, `client/MetadataUpdateLoop.java` |
# | `recover` | `client/LedgerRecoveryOp.java`, `ReadOnlyLedgerHandle.java` |
# | `create_ledger` | `client/LedgerCreateOp.java`, `RackawareEnsemblePlacementPolicyImpl.java` |
# | `append_all`, its window | `LedgerHandle.asyncAddEntry`, the throttle of `throttleValue` |
#
# ## Questions
#
# <details><summary>Your client passes with the messages of two adds in every order. What can still be wrong?</summary>
#
# Any bug that needs a third add, a fourth bookie or a timeout. The storms look for such bugs, but they are only a sample.
# </details>
#
# <details><summary>Why does labkit's client, and not yours, read the entries that your client stored?</summary>
#
# Because two bugs can cancel each other out. If a writer sends entries to the wrong bookies, a reader with the same bug still finds them.
# </details>
#
# <details><summary>Why must a recovery not announce the entries that it has written back?</summary>
#
# It may die before it closes the ledger. The next recovery may get responses from other bookies and close the ledger before these entries. A reader would then have read entries that do not exist.
# </details>
#
# **Back to** [the tour](00-tour.ipynb), or to the map of the course in `docs/course.md`.
