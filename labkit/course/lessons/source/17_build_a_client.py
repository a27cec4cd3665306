# %% [markdown]
# # 17 · How do you build a client?
#
# A bookie stores what it is given. Everything else that BookKeeper promises is the client's work: which bookies get an entry, when it is confirmed, how far a reader may read, and where a ledger ends whose writer is gone. You write that client in one file, `myclient.py`, in seven steps.
#
# **At the end you can** write a client whose confirmed entries outlive bookies and writers, and find the run in which a plausible one loses an entry.
#
# **Takes** about 480 minutes. **Needs** Python alone, in a browser tab as well; the last step needs a terminal, Java and Linux or macOS. **After** lesson 08.
#
# > **The rule.** *A confirmed entry is on Qa bookies that the metadata name, and no two clients disagree about where a ledger ends.*

# %% tags=["parameters"]
entry_count = 6  # entries in the pictures
seed_count = 6  # storms in each check; `labkit workshop` runs 200
dies_after = 3  # entries that are confirmed when a bookie or a writer dies

# %%
from dataclasses import replace

from labkit.course.lessons import compare, parameters, predict
from labkit.course.runs.timeline import timeline

# %%
from labkit.course.workshop import begin, check, step
from labkit.course.workshop.client import runs
from labkit.course.workshop.step import track
from labkit.views.widgets.space_time import SpaceTime
from labkit.worlds.sim.explore.orders.every_order import every_order
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Recover

parameters("17", globals())

# %% [markdown]
# ## The picture: what you will build
#
# A writer `w` adds entries to three bookies, two copies each. `w` dies, and a client `r` recovers the ledger. Everything in the lanes of `w` and `r` will be your code.

# %%
write = runs.write(entry_count, (3, 2, 2), window=2)
died = Crash("w", when=On("lac.advanced", dies_after))
handed_over = run(runs.quiet(write, Recover(when=At(30.0)), faults=(died,)))
SpaceTime(handed_over)

# %% [markdown]
# | step | you write | what it decides |
# | --- | --- | --- |
# | 1 | `write_set`, `Writer.add` | who gets an entry, and when it is confirmed |
# | 2 | `Reader.read_last_add_confirmed` | how far a reader may read |
# | 3 | `Reader.read_entry` | what an answer proves |
# | 4 | more of `Writer` | who takes the place of a bookie that failed |
# | 5 | `Writer.close` | where a ledger ends |
# | 6 | `recover` | the same, without its writer |
# | 7 | `create_ledger`, `append_all`, `take_over` | what a program of a live cluster can promise |
#
# You are given requests to single bookies, and the ledger's metadata with their version: the class `Cluster`, whose docstrings are the contract. `from labkit.course.workshop.client.api import Cluster` and `help(Cluster)` show them. Every step runs the same way: the **invariants**, a picture, the **red test**, which fails until you begin, and the check. The check runs your client in small clusters with faults, in every order of a few messages, and in storms. Then labkit's own client reads back what yours stored. The **figure** compares requests, or simulated time, with labkit's own client.
#
# ## Your file
#
# The next cell makes `myclient.py` in this notebook's folder; it never overwrites a file that is there. Write where it raises `NotImplementedError`, save, and run the step's check again.

# %%
# solution
my_file = track("client").solution
# learner
# my_file = begin("client")
# end
print(my_file.name)

# %% [markdown]
# ## Step 1 · Append to a quorum

# %%
step("client", 1)

# %%
SpaceTime(run(runs.ONE_IS_LATE))

# %% [markdown]
# The messages to and from some bookies are slow here, so acknowledgements come out of order. Confirmations do not.
#
# **Predict.** E=5, Qw=3, Qa=2, and 12 adds without any fault. How many requests does the writer send to bookies?

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
# Write `write_set` and `Writer.add`, then:

# %% tags=["exercise"]
check("client", 1, my_file, seeds=seed_count)

# %% [markdown]
# ### What a refusal looks like
#
# A refusal comes with a run, opened where the promise broke. Here is labkit's client with a mistake on purpose: it confirms an entry when one bookie has it. Step backwards, and look for the acknowledgement that is missing. All orders of two adds' messages were tried to find this run.

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
# No bookie knows what is confirmed; only the writer does. So each entry carries the LastAddConfirmed of its moment, and a reader asks bookies for their last entry. One answer may be from a bookie that missed everything. And you may never get all the answers.
#
# Fill in `last_add_confirmed` in `Writer.add`, write `Reader.read_last_add_confirmed`, then:

# %% tags=["exercise"]
check("client", 2, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 3 · Read an entry

# %%
step("client", 3)

# %%
SpaceTime(run(runs.some_are_silent()))

# %% [markdown]
# Two of three bookies are down, and the third one never heard of the ledger. "No such entry" proves that this bookie has no copy; silence proves nothing. The reader's caller must learn which of the two it was.
#
# Write `Reader.read_entry`, then:

# %% tags=["exercise"]
check("client", 3, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 4 · Another bookie takes the place

# %%
step("client", 4)

# %%
dies = Crash("b1", when=On("lac.advanced", dies_after))
changed = run(runs.quiet(runs.write(8, (3, 2, 2), window=3), bookies=4, faults=(dies,)))
SpaceTime(changed)

# %% [markdown]
# **Predict.** At which entry does the new ensemble begin?

# %%
# solution
predict("the new ensemble begins at", dies_after)
# learner
# predict("the new ensemble begins at", None)
# end

# %%
begun = [event.entry for event in changed.events if event.kind == "ensemble.set"]
compare("the new ensemble begins at", begun[-1])

# %% [markdown]
# Acknowledgements go on arriving while the metadata are on their way. Whatever they confirm then belongs to the old ensemble, and the metadata will say that it is in the new one.
#
# Write the change of the ensemble, then:

# %% tags=["exercise"]
check("client", 4, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 5 · Close, and be fenced

# %%
step("client", 5)

# %%
SpaceTime(run(runs.TAKEN))

# %% [markdown]
# The writer is only paused. While it sleeps another client recovers its ledger; then it wakes up and goes on. Everything it does from here on must fail, and nothing that it confirmed may be lost.
#
# Write `Writer.close`, and what ends a writer, then:

# %% tags=["exercise"]
check("client", 5, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 6 · Recover a ledger

# %%
step("client", 6)

# %%
SpaceTime(run(runs.lost_fence()))

# %% [markdown]
# One bookie has the last entry, one gets it late, one never gets it, and a fence is lost on the way. Where does this ledger end? Either answer may be right. But once it is given, no client may ever find another one.
#
# Write `recover`, then:

# %% tags=["exercise"]
check("client", 6, my_file, seeds=seed_count)

# %% [markdown]
# ## Step 7 · A program of a live cluster

# %%
step("client", 7)

# %%
SpaceTime(run(runs.TAKEN))

# %% [markdown]
# Until now a trial has made the ledger and called your `Writer`. Now you write the program around it: it chooses an ensemble, stores the metadata, keeps a window of adds under way, and takes over a ledger whose writer does not answer. Steps 1 to 6 stay as they are. Only the world is another one: ZooKeeper, four bookies and your program are processes, and signals are the faults.
#
# | fault | what must hold |
# | --- | --- |
# | a bookie gets SIGKILL in mid-write | the program goes on, and ZooKeeper names another bookie |
# | your program gets SIGSTOP, and a second one takes its ledger over | everything that was confirmed is in the ledger |
# | the first one gets SIGCONT | its adds are refused, and it ends with an error |
#
# **Predict.** The picture above is the same story: a writer is paused, another client recovers its ledger, the writer goes on. How many entries does the writer confirm after the ledger is closed?

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
# The acknowledgement of an entry may be under way when the fence comes. The writer confirms that entry late, and it is right: recovery has found it. The rule that counts is a different one: what is confirmed is in the ledger.
#
# Write `create_ledger`, `append_all` and `take_over`. This step starts processes, which a browser tab cannot. At home or on Binder, type in a terminal, in the folder of your file:
#
# ```
# labkit workshop client        every step, each under 200 seeds
# labkit workshop client 7      your program as processes of a live cluster
# ```
#
# What your program wrote is read by labkit's client and shell. The ledgers are BookKeeper's own: `bookkeeper shell ledgermetadata` and `readledger` read them, too, and `readledger -r` recovers the ledger of your stopped program. On a cluster that you keep (`labkit local`):
#
# ```
# seq 1000 | labkit client --zookeeper HOST:PORT write      ledger 0, then each entry once it is confirmed
# labkit client --zookeeper HOST:PORT take 0                recovers the ledger, and prints it
# labkit shell --zookeeper HOST:PORT ledgermetadata -l 0    where its entries are
# ```
#
# ## Open challenges
#
# Nothing checks these. Each is a part of the real client that yours does not have.

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
# | the change of the ensemble | `LedgerHandle.ensembleChangeLoop`, `client/MetadataUpdateLoop.java` |
# | `recover` | `client/LedgerRecoveryOp.java`, `ReadOnlyLedgerHandle.java` |
# | `create_ledger` | `client/LedgerCreateOp.java`, `RackawareEnsemblePlacementPolicyImpl.java` |
# | `append_all`, its window | `LedgerHandle.asyncAddEntry`, the throttle of `throttleValue` |
#
# ## Questions
#
# <details><summary>Your client passes every order of two adds. What can still be wrong?</summary>
#
# Whatever needs a third add, a fourth bookie or a timeout. The storms look there, as a sample.
# </details>
#
# <details><summary>Why does labkit's client read back what yours stored, and not yours?</summary>
#
# Two mistakes that agree with each other find nothing wrong: a writer that sends entries to the wrong places is understood by a reader with the same mistake.
# </details>
#
# <details><summary>Why may a recovery not announce the entries that it has written back?</summary>
#
# It may die before it closes the ledger. The next recovery asks other bookies, may end the ledger before those entries, and a reader has read what then does not exist.
# </details>
#
# **Back to** [the tour](00-tour.ipynb), or to the map of the course in `docs/course.md`.
