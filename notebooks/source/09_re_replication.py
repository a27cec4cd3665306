# %% [markdown]
# # 09 · A bookie is lost for good. Who notices, and who restores its copies?
#
# In lesson 07, a writer replaced a bookie that had failed. But most ledgers no longer have a writer. They
# are closed, and only readers still use them. When a bookie is lost, each of its ledgers loses a copy of
# some entries, and no client notices. So the bookies have to look after each other.
#
# **At the end you can**
# - say when a missing bookie counts as *lost*, and why a bookie that is restarting does not,
# - find out from ZooKeeper which bookie is the auditor, which ledgers lack copies, and who is repairing
#   them,
# - decide which copies are missing, and put the steps of a repair in the only order that is safe no matter
#   when the worker dies.
#
# **Takes** about 75 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson
# 08.
#
# **The rule.** *No matter which process dies, and when, another process can find every ledger that lacks a
# copy, without knowing anything about the work of the first.*

# %% tags=["parameters"]
lost = "b2"  # the bookie that is lost for good: b1 or b2
delay_s = 10  # lostBookieRecoveryDelay
entry_count = 12  # entries of ledger 0

# %%
from dataclasses import replace

from labkit.course.lessons import (
    At,
    Crash,
    EnsembleHistory,
    On,
    RecoveryProgress,
    add_missed,
    auditor_cut_off,
    bookie_lost,
    broken,
    check,
    check_all,
    compare,
    copied_entries,
    entries_with_one_copy,
    hint,
    marked_ledgers,
    outcome_of,
    parameters,
    predict,
    read_count,
    reads_before_first_copy,
    repair_of,
    run,
    second_of_mark,
    sentences,
    two_bookies_lost,
    worker_dies,
    write_set,
    znodes_of,
)

# %%
parameters("09", globals())

# %% [markdown]
# ## A picture first
#
# This cluster has five bookies and three ledgers. One bookie is killed after a second and never comes back.
# The scenario also has a reader, which only keeps the run going for a minute.

# %%
scenario = bookie_lost(lost, delay_s, entry_count)
trace = run(scenario)
RecoveryProgress(trace)

# %% [markdown]
# **How to read the chart.** The chart is not to scale. Each column is an event that changed something. A
# shaded column is a wait, and its length is shown above it if there is room. The top lane shows the auditor.
# Each bookie has a lane that shows whether it is up, and each ledger has a lane that shows whether it is
# marked, and who is working on it. Below the chart, you see one moment in detail. For each ledger, there is
# a box for each bookie, with the number of copies that the bookie has and should have. A dashed box is a
# bookie that already has copies but is not in the metadata yet. The picture shows the end of the run. Play
# it to see earlier moments.
#
# Now read the chart from left to right.
#
# 1. All bookies run autorecovery, and one of them has been elected **auditor**.
# 2. The bookie dies. For a few seconds nobody notices, because its ZooKeeper *session* has not expired, so
#    the bookie is still registered.
# 3. Its registration disappears, and the auditor waits for `lostBookieRecoveryDelay`. Then the auditor
#    considers the bookie lost and **marks** every ledger whose metadata lists it.
# 4. Each bookie has a **worker**. Workers lock the marked ledgers and repair them. Here, two workers repair
#    different ledgers at the same time.
# 5. The repair of one ledger is *deferred*. A later section explains why.
#
# ## Predict
#
# Now you kill a different bookie, `other`. In this cluster, ledgers use bookies in the order of their
# names, starting with b0. For ledgers 0 and 2, `E` is 3, and for ledger 1, it is 2. Which ledgers will be
# marked? Answer with a list of ledger ids, such as `[1]`.

# %%
other = "b1" if lost == "b2" else "b2"
my_ledgers = None
# solution
my_ledgers = [ledger for ledger, size in enumerate((3, 2, 3)) if int(other[1]) < size]
# end
predict("ledgers that are marked", my_ledgers)

# %% [markdown]
# How many entries of ledger 0 must be copied? `E` is 3 and `Qw` is 2, so entry `e` is stored at the
# ensemble indices `e % 3` and `(e + 1) % 3`.

# %%
my_copies = None
# solution
my_copies = sum(int(other[1]) in write_set(entry, 3, 2) for entry in range(entry_count))
# end
predict("entries of ledger 0 to copy", my_copies)

# %%
without = run(bookie_lost(other, delay_s, entry_count))
compare("ledgers that are marked", marked_ledgers(without))

# %%
compare("entries of ledger 0 to copy", len(copied_entries(without, 0)))

# %% [markdown]
# To find these ledgers, the auditor reads the metadata of **all** ledgers, because the metadata store has
# no index by bookie. It does not ask any bookie for entries. A mark is only a suspicion, which the worker
# checks.
#
# ## Marks, locks and votes are znodes
#
# The auditor and the workers never talk to each other. They only share this part of ZooKeeper. The cell
# starts to read the znodes when the second worker starts, and reads them one after another. Meanwhile, the
# workers continue, so a ledger that has just been repaired is no longer listed:

# %%
moment = On("replication.started", nth=2)
(znodes,) = znodes_of(scenario, [moment], root="/ledgers/underreplication")
znodes

# %% [markdown]
# - `auditorelection/V_…` is a bookie's vote. Votes are *ephemeral and sequential*. The bookie whose vote
#   has the smallest number is the auditor, and every other bookie watches the vote before its own. The lost
#   bookie's vote has disappeared with its session.
# - `ledgers/0000/0000/0000/0002/urL…` is a mark. It is persistent, so it survives every crash.
# - `locks/urL…` says who is repairing the ledger. It is ephemeral, so when the worker's session expires,
#   the ledger is no longer locked, but it is still marked.
#
# The contents of these znodes are the same as BookKeeper's, byte for byte, and BookKeeper's workers accept marks
# that labkit's auditor has set.

# %% [markdown]
# ## A repair, event by event

# %%
told = "replication.started", "entry.copied", "ensemble.set", "replication.done"
print(repair_of(trace, 0, *told))

# %% [markdown]
# How did the worker know which copies were missing? It asked the bookies. Here are its reads before the
# first copy:

# %%
print(*reads_before_first_copy(trace, 0), sep="\n")

# %% [markdown]
# A **fragment** consists of the entries of one segment. First the worker asks every registered bookie of
# the fragment for **the first and the last entry** that this bookie should have. It does not ask the lost
# bookie. It does not check the entries in between, no matter how many of them there are, unless you set
# `auditorLedgerVerificationPercentage` (0 by default). Then it reads each entry that it has to copy from a
# bookie that has it.
#
# Keep this check in mind. It is cheap, but it has a weakness.

# %% [markdown]
# ## Exercise 1: when is a bookie lost?
#
# A bookie that is restarting is missing, too. The auditor keeps a table of the missing bookies and the
# second in which each one went missing. It calls your function to find out when to read the metadata and
# mark ledgers. It calls the function again whenever something changes. Return a time, or `None` if there is
# nothing to wait for.
#
# You have to balance two goals. If a bookie is only restarting, copying all of its ledgers is a waste of
# work. But if **more than one** bookie is missing, some entries may be down to their last copy.


# %%
# solution
def when_to_audit(missing, delay_s, now_s):
    if not missing:
        return None
    if len(missing) > 1:
        return now_s
    return min(missing.values()) + delay_s


# learner
# def when_to_audit(missing, delay_s, now_s):
#     """Return when to audit, in seconds (now_s: immediately), or None for never.
#
#     missing: maps bookies to the second at which they went missing, such as {"b1": 4.0}.
#     """
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("repair.lost_bookies", when_to_audit)

# %% [markdown]
# Stuck? Call `hint("repair.lost_bookies")`. It gives you three hints, one at a time.
#
# ### Break it: no delay
#
# This is the real auditor with one rule changed: it considers a bookie lost as soon as the bookie is
# missing. Here the bookie only restarts, and six seconds later it is back with all its copies.

# %%
restart = replace(scenario, faults=(Crash(lost, down_ms=6000, when=At(1000)),))
hasty = replace(restart, variant="auditor without delay")
print("with the delay: ", outcome_of(restart))
print("without:        ", outcome_of(hasty))

# %%
print(broken(check_all(run(hasty)))[0].reason)
RecoveryProgress(run(hasty))

# %% [markdown]
# No entries are lost. But imagine a bookie with several terabytes of data. The cluster reads, sends and
# writes all of it again, on machines that have other work to do. When the bookie comes back, the copies on
# its own disks are garbage. If you restart ten bookies one by one for an upgrade, this happens ten times.
#
# BookKeeper's default is **0**, that is, no delay. A delay helps in everyday operation. For upgrades,
# switch off autorecovery with `labkit shell --zookeeper … autorecovery -disable`.

# %% [markdown]
# ## Exercise 2: which copies are missing?
#
# The worker has asked the bookies. Your function receives the fragment's `ensemble`, the `registered`
# bookies, and the `failures`. If the bookie at some index of the ensemble did *not* return a requested
# entry, `failures` maps this index to a list of errors. `BKNoSuchEntryException` means that the bookie does
# not have the entry. `BKTimeoutException`, `BKDigestMatchException` and others mean that the copy could not
# be read.
#
# Recovery (lesson 08) had to distinguish these errors carefully. Do you have to do that here, too?


# %%
# solution
def missing_copies(ensemble, registered, failures):
    return [
        index
        for index, bookie in enumerate(ensemble)
        if bookie not in registered or index in failures
    ]


# learner
# def missing_copies(ensemble, registered, failures):
#     """Return the indices of the ensemble (0, 1, ...) whose copies must be restored.
#
#     For example ensemble ["b0", "b1", "b2"], registered ["b0", "b2", "b3"],
#     failures {2: ["BKTimeoutException"]}.
#     """
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("repair.fragments", missing_copies)

# %% [markdown]
# This function counts only explicit denials:


# %% tags=["refused"]
def only_denials(ensemble, registered, failures):
    denied = {i for i, errors in failures.items() if "BKNoSuchEntryException" in errors}
    return [i for i, name in enumerate(ensemble) if name not in registered or i in denied]


check("repair.fragments", only_denials, must_pass=False)

# %% [markdown]
# Recovery asks whether an entry exists, and a wrong "no" loses the entry forever. A worker knows that the
# entry exists, and asks whether a particular copy can be read. An extra copy only costs some disk space,
# but an unreadable copy is worthless.

# %% [markdown]
# ## Exercise 3: the order of a repair
#
# Here are the four steps, in alphabetical order. The worker already holds the lock. Put the steps in an
# order that is safe no matter when the worker dies or which step fails. The real workers of all five
# bookies then use your order.

# %%
steps = [
    "name the new bookies in the metadata",
    "remove the mark and the lock",
    "store the copies on the new bookies",
    "test the ledger's copies again",
]

# %%
my_order = None
# solution
my_order = [steps[i] for i in (2, 0, 3, 1)]
# end

# %% tags=["exercise"]
check("repair.order", my_order)

# %% [markdown]
# What if the mark is removed before the copies are tested?

# %% tags=["refused"]
check("repair.order", [steps[i] for i in (2, 0, 1, 3)], must_pass=False)

# %% [markdown]
# The ledger must remain marked until a test confirms that no copies are missing. If a worker removes the
# mark earlier and then dies, nobody will repair the ledger.

# %% [markdown]
# ## Break it: the metadata first
#
# A worker could add the new bookie to the metadata first and copy the entries to it afterwards. Some
# readers would ask the new bookie too early, but they would simply try the next bookie. So what is the
# harm? Here the ledger has entries 0 to 9 on b0, b1 and b2, with the same `E` and `Qw` as before, and b1 is
# lost. b0's worker adds b3 to the metadata in place of b1, and copies to b3 what b1 had. It reads each entry
# from the other bookie that has it. b2 is slow. The worker dies before it has finished, and restarts.

# %%
early = worker_dies(delay_s)
hole = run(replace(early, variant="metadata before the copy"))
RecoveryProgress(hole)

# %% [markdown]
# The repair has finished, the mark has been removed, and all remaining bookies are up. And yet the ledger
# has only **1 of 2 copies** of some entries. Predict which entries these are, as a list. (The cell below gets
# the answer from the run's `epilogue`. As in lesson 07, the simulation repairs all faults after the last step
# of a run, and then looks up every entry on every bookie that should have it.)

# %%
my_entries = None
# solution
my_entries = [1, 4, 7]
# end
predict("entries with one copy", my_entries)

# %%
compare("entries with one copy", entries_with_one_copy(hole))

# %%
print(broken(check_all(hole))[0].reason)

# %% [markdown]
# The second worker followed its rule. It asked b3, which the metadata now lists, for its first and its last
# entry. b3 had both. The missing entries are in between, and this check never finds them. If b2 dies, they
# are lost. If workers make the copies first, the second worker finds the old metadata and starts over:

# %%
print(RecoveryProgress(run(early)))

# %% [markdown]
# So *the metadata must list a bookie only if the bookie has every copy that it should have*. Then the cheap
# check is enough, because it looks only at bookies that once had every entry.

# %% [markdown]
# ## The auditor dies while it is marking ledgers
#
# The auditor has marked one ledger and dies before it marks the others. Nobody else knows which ledgers it
# was going to mark.

# %%
round_broken = Crash("b0", down_ms=1000, when=On("ledger.underreplicated"))
RecoveryProgress(run(scenario.with_fault(round_broken)))

# %% [markdown]
# The auditor's vote lasts as long as its session, so for a few seconds, a dead bookie is still the auditor.
# b0 is back within a second, but its new vote is the last in the list, so the next bookie takes over. The
# new auditor knows nothing about the earlier round, and it does not need to. It compares the registered
# bookies with the metadata of all ledgers and marks the ledgers that lack copies. It does not mark a ledger
# twice. Starting over is always correct. It is just slow.

# %% [markdown]
# ### If one component dies, the others restart with it
#
# The auditor, the worker and the vote share one ZooKeeper session. The bookie's registration has its own.
# Here, the auditor b0 is cut off from ZooKeeper (but from nothing else) for a few seconds. The session
# timeout is 4 s, so both sessions expire, which gives two lines. Later, b0 reaches ZooKeeper again, and
# autorecovery's client opens a session. Autorecovery ends that session, too, and starts over in a new one:

# %%
cut_ms = 8000  # yours to change: 2000
apart = run(auditor_cut_off(cut_ms, delay_s))
told = "auditor.elected", "session.lost", "autorecovery.restarted", "bookie.registered"
print(sentences(apart, *told))

# %% [markdown]
# When the session expires, the vote and the locks disappear with it. If b0 simply continued, there would be
# two auditors. So b0 stops all of its autorecovery and restarts it with a new vote. Until then, b0 may
# still believe that it is the auditor, but without ZooKeeper it cannot read metadata or mark ledgers. In
# BookKeeper, this is the job of the **DeathWatcher**. This thread checks whether the auditor election and
# the worker are still running, and stops the process if one of them has died.

# %% [markdown]
# ## Missing copies without a lost bookie
#
# In the last run of lesson 07, `b2` was cut off from the writer just before the last entry. Two other
# bookies acknowledged the entry, and the ledger was closed. All bookies are up, so none of them is lost.
# BookKeeper's issue #1390 is about this case. Who finds the missing copy, and when?

# %% [markdown]
# **Predict.** The writer starts in second 25, and `b2` misses the last entry a few milliseconds later. The
# auditor is elected in second 0 and immediately checks all ledgers. It repeats this check periodically,
# here with `check_interval_s = 20`. `lostBookieRecoveryDelay` is 10 seconds. In which second is the ledger
# marked? Answer with a number, or with -1 if it is never marked.

# %%
my_second = None
# solution
my_second = 40
# end
predict("second of the mark", my_second)

# %%
check_interval_s = 20  # yours to change: 10, 604_800 (a week), 0 (off)
checked = run(add_missed(check_interval_s, delay_s))
print(sentences(checked, "ledger.underreplicated", "ensemble.set", "replication.done"))
compare("second of the mark", second_of_mark(checked))

# %% [markdown]
# No bookie was lost, so neither the failed add nor the delay leads to a mark. Only the periodic check finds
# the missing copy. Like a worker, the auditor reads the first and the last entry of each fragment from each
# bookie. With the default interval, the entry may have only two copies for up to a week.
#
# Does the check also find the missing entries that "the metadata first" left in the middle of a fragment?
# `auditorLedgerVerificationPercentage` says what percentage of the other entries the check also reads. The
# default is 0.

# %%
for percentage in (0, 100):  # yours to change
    hole = run(replace(worker_dies(delay_s, percentage), variant="metadata before the copy"))
    line = f"{read_count(hole)} reads, entries with one copy: {entries_with_one_copy(hole)}"
    print(f"{percentage:>3} % checked: {line}")

# %% [markdown]
# At 100 %, the check finds the missing entries, but it has to read every entry of every ledger. That is why
# it is off by default.

# %% [markdown]
# ## Fragment by fragment
#
# If the ensemble of a ledger has changed, the ledger has several **fragments**, one for each segment. Here
# two bookies die during the writes, so the ledger has three fragments:

# %%
dies_at = 3, 6  # confirmed entries when b1 dies, and when b3 dies; yours to change
pieces = run(two_bookies_lost(dies_at))
EnsembleHistory(pieces)

# %%
print(sentences(pieces, "ledger.underreplicated", "entry.copied", "ensemble.set"))

# %% [markdown]
# The ledger gets one mark, but the worker repairs each fragment separately. It first makes the copies and
# then updates the segment in the metadata. The last fragment has all its copies, so the worker does not
# touch it.

# %% [markdown]
# ## A ledger that is still open
#
# In the first picture, the repair of ledger 2 was deferred for thirty seconds. Why?

# %%
late = "replication.started", "replication.deferred", "recovery.started", "ledger.closed"
print(repair_of(trace, 2, *late, "ensemble.set", "replication.done"))

# %% [markdown]
# An open ledger may still have a writer. At its next add, the writer notices that the bookie is gone and
# replaces it (lesson 07). So the worker waits for `openLedgerRereplicationGracePeriod`. If the metadata
# still lists the lost bookie after that, the worker opens the ledger **with recovery**: it fences the
# writer, finds the end of the ledger and closes it (lesson 08). Then it repairs the ledger like any other
# closed ledger. If the writer was only slow, it loses its ledger, but none of its confirmed entries.

# %% [markdown]
# <details><summary>Why are marks persistent and locks ephemeral?</summary>
#
# A mark describes the ledger. It is valid until the ledger has been repaired, no matter which node dies. A
# lock identifies its worker. It is valid only as long as that worker is alive.
# </details>
#
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `lostBookieRecoveryDelay`, default 0 | the same; a znode of that name takes precedence, and writing the same value to it triggers an audit |
# | no delay if more than one bookie is missing | the same (`Auditor.submitAuditTask`) |
# | marks, locks, votes | the same znodes and contents (`ZkLedgerUnderreplicationManager`, `ZkLedgerAuditorManager`), except that a lock contains the host instead of the bookie id |
# | checks the first and last entry, and `auditorLedgerVerificationPercentage` of the rest | the same (`LedgerChecker`), but it looks only at the result code and does not verify digests |
# | a new bookie receives only the entries whose write sets include it | every entry of the range is copied to every new bookie, even to bookies outside its write set (proposed change #3067) |
# | `openLedgerRereplicationGracePeriod`, 30 s | the same, but a bookie that is only read-only counts as missing there, so a healthy writer can be fenced |
# | every bookie runs autorecovery | `autoRecoveryDaemonEnabled`, off by default, or a separate process: `bookkeeper autorecovery` (`AutoRecoveryMain`) |
# | auditor, worker | `replication/Auditor`, `ReplicationWorker`, `LedgerFragmentReplicator` |
#
# Some checks do not need a lost bookie as a trigger. The auditor checks all ledgers once a week
# (`auditorPeriodicCheckInterval`, 604,800 s), and the registered bookies once a day
# (`auditorPeriodicBookieCheckInterval`). If an add to one bookie fails *after* `Qa` others have
# acknowledged the entry, the failure is not reported, and only the weekly check finds the missing copy
# (**#1390**).
#
# <details><summary>The auditor is cut off from ZooKeeper, and all bookies are fine. Does it mark all
# ledgers?</summary>
#
# No. Without a response from ZooKeeper, it does not know which bookies are missing, so it marks nothing.
# "Could not ask" does not mean "is missing". When its session expires, the bookie with the next vote takes
# over.
# </details>
#
# The shell has the same commands as `bookkeeper shell`:
#
# ```
# labkit shell --zookeeper localhost:2181 whoisauditor
# labkit shell --zookeeper localhost:2181 listunderreplicated
# labkit shell --zookeeper localhost:2181 autorecovery -disable
# labkit shell --zookeeper localhost:2181 triggeraudit
# labkit shell --zookeeper localhost:2181 decommissionbookie -bookieid 10.0.0.7:3181
# ```
#
# Use `decommissionbookie` for a bookie that you have shut down permanently. It triggers an audit, waits until
# no ledger refers to the bookie, and deletes its cookie.
#
# Known bugs in repair:
# - **#4163**: the flag that lets a copy through a fence was lost, so fenced ledgers could not be repaired.
# - **#4668**: a bookie that looks for over-replicated ledgers can delete a ledger that is still being
#   copied to it, because the metadata does not list the bookie until the copy is complete. To avoid this,
#   labkit also checks marks and recently added entries.

# %% [markdown]
# ## Questions
#
# <details><summary>A worker dies after it has stored all copies but before it has added the new bookie to the metadata. What is lost?</summary>
#
# Only work is lost. The ledger is still marked, the lock disappears with the worker's session, and the next
# worker copies everything again, perhaps to another bookie. The first worker's copies are garbage.
# BookKeeper's bookies look for such ledgers once a day (`gcOverreplicatedLedgerWaitTime`), and so do
# labkit's.
# </details>
#
# <details><summary>Two bookies die within the delay. One ledger has Qw = 2. What happens?</summary>
#
# The auditor does not wait. If more than one bookie is missing, it marks ledgers immediately. But workers
# cannot copy entries whose only copies were on these two bookies. The worker reports which entry it could
# not read, keeps the lock for a while, and retries after longer and longer pauses. If one of the two
# bookies comes back, the repair succeeds.
# </details>
#
# <details><summary>A ledger is marked again while it is being repaired. Is the new mark lost?</summary>
#
# No. The worker deletes the mark only if its version has not changed since the worker took the lock. The
# new mark has changed the version, so the deletion fails. The ledger is still marked, and a worker checks
# it again.
# </details>
#
# **Next:** [10 garbage collection](10-garbage.ipynb). Why is the disk still full?
