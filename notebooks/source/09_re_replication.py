# %% [markdown]
# # 09 · A bookie is lost for good. Who notices, and who restores its copies?
#
# In lesson 07, a writer replaced a bookie that had failed. But most ledgers no longer have a writer: they
# are closed, and only readers still use them. When a bookie is lost, each of its ledgers loses a copy of some
# entries, and no client notices. So the bookies have to look after each other.
#
# **At the end you can**
# - say when a missing bookie counts as *lost*, and why a restarting bookie does not,
# - read from ZooKeeper which bookie is the auditor, which ledgers lack copies, and who repairs them,
# - decide which copies are missing, and put the steps of a repair into the only order that is safe no
#   matter when the worker dies.
#
# **Takes** about 75 minutes. **Needs** only Python; also works in a browser tab. **After** lesson 08.
#
# **The rule.** *No matter which process dies, and when, another process that knows nothing about the first
# one's work can find every ledger that lacks a copy.*

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
# The reader's only purpose is to keep the run going for a minute.

# %%
scenario = bookie_lost(lost, delay_s, entry_count)
trace = run(scenario)
RecoveryProgress(trace)

# %% [markdown]
# **How to read the chart.** The chart is not to scale: each column is a step, that is, an event that
# changed something. A shaded column is a wait, with its length above it. The top lane shows the auditor,
# and each bookie has a lane of its own. Each ledger has a *strip* that shows who is working on it, and an
# *area* that shows how many of its copies exist. Copies on a bookie that is not in the metadata yet are
# pale blue. Point into the chart, or play it; below the chart, you see that moment in detail.
#
# Read the chart from left to right.
#
# 1. All bookies run autorecovery, and one of them has been elected **auditor**.
# 2. The bookie dies. For some seconds nobody notices, because its *session* with ZooKeeper has not expired
#    and the bookie is still registered.
# 3. Its registration disappears, and the auditor waits for `lostBookieRecoveryDelay`. Then it considers the
#    bookie lost and **marks** every ledger whose metadata lists the bookie.
# 4. **Workers**, one in each bookie, lock the marked ledgers and repair them. Two workers work at the same
#    time, on different ledgers.
# 5. The repair of one ledger is *deferred*. You will see why in a later section.
#
# ## Predict
#
# Now you kill another bookie instead: `other`. In this cluster, ledgers use bookies in the order of their
# names: ledgers 0 and 2 are on b0, b1 and b2, and ledger 1 is on b0 and b1. Which ledgers will be marked?

# %%
other = "b1" if lost == "b2" else "b2"
my_ledgers = None
# solution
my_ledgers = [ledger for ledger, size in enumerate((3, 2, 3)) if int(other[1]) < size]
# end
predict("ledgers that are marked", my_ledgers)

# %% [markdown]
# How many entries of ledger 0 must be copied? Its `E` is 3 and its `Qw` is 2, so entry `e` is at the
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
# To find these ledgers, the auditor reads the metadata of **all** ledgers, because there is no index by
# bookie. It does not ask any bookie for entries. A mark is only a suspicion; the worker checks it.
#
# ## Marks, locks and votes are znodes
#
# The auditor and the workers never talk to each other. They only share this part of ZooKeeper. The znodes
# are read one after another, starting at the moment when the second worker starts. One ledger has already been
# repaired when its znode is read:

# %%
moment = On("replication.started", nth=2)
(znodes,) = znodes_of(scenario, [moment], root="/ledgers/underreplication")
znodes

# %% [markdown]
# - `auditorelection/V_…` is the vote of a bookie. Votes are *ephemeral and sequential*. The bookie with the
#   smallest number is the auditor, and every other bookie watches the vote before its own.
# - `ledgers/0000/0000/0000/0002/urL…` is a mark. It is persistent, so it survives every crash.
# - `locks/urL…` says who is repairing the ledger. It is ephemeral: when the worker's session expires, the
#   ledger is no longer locked, but it is still marked.
#
# The contents of these znodes are the same as BookKeeper's, byte for byte, and BookKeeper's workers accept marks
# that labkit's auditor has set.

# %% [markdown]
# ## A repair, event by event

# %%
told = "replication.started", "entry.copied", "ensemble.set", "replication.done"
print(repair_of(trace, 0, *told))

# %% [markdown]
# How did the worker know which copies were missing? It asked the bookies. These are its reads before the
# first copy:

# %%
print(*reads_before_first_copy(trace, 0), sep="\n")

# %% [markdown]
# A **fragment** consists of the entries of one segment. First the worker asks every registered bookie of
# the fragment for **the first and the last entry** that this bookie should have. It does not ask the lost
# bookie at all. It does not check the entries in between, no matter how many there are
# (`auditorLedgerVerificationPercentage`, 0 by default, changes this). Then it reads the entries to copy,
# each from a bookie that has it.
#
# Remember this check. It is cheap, but it has a weakness.

# %% [markdown]
# ## Exercise 1: when is a bookie lost?
#
# A bookie that is restarting is missing, too. The auditor keeps a table of the missing bookies, with the
# second at which each one went missing. It calls your function to find out when to read the metadata and
# mark ledgers, and calls it again whenever something changes. Return a time, or `None` if there is nothing
# to wait for.
#
# Two goals conflict here. Copying all ledgers of a bookie that is only restarting is a lot of work for
# nothing. But if **more than one** bookie is missing, some entries may be down to their last copy.


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
# Stuck? `hint("repair.lost_bookies")` gives you three hints, one at a time.
#
# ### Break it: no delay
#
# This is the real auditor with one rule changed: it considers a bookie lost as soon as it is missing. Here
# the bookie only restarts, and six seconds later it is back with all its copies.

# %%
restart = replace(scenario, faults=(Crash(lost, down_ms=6000, when=At(1000)),))
hasty = replace(restart, variant="auditor without delay")
print("with the delay: ", outcome_of(restart))
print("without:        ", outcome_of(hasty))

# %%
print(broken(check_all(run(hasty)))[0].reason)
RecoveryProgress(run(hasty))

# %% [markdown]
# No entry is lost. But imagine a bookie with several terabytes of data. All of it is read, sent and written
# again, on machines that have other work to do. When the bookie comes back, the copies on its disks are
# garbage. If you restart ten bookies one after the other for an upgrade, this happens ten times.
#
# BookKeeper's default is **0**, no delay. The delay helps in everyday operation. For upgrades, switch
# autorecovery off with `labkit shell --zookeeper … autorecovery -disable`.

# %% [markdown]
# ## Exercise 2: which copies are missing?
#
# The worker has asked the bookies. Your function receives the fragment's `ensemble`, the `registered`
# bookies, and the `failures`: for each index of the ensemble whose bookie did *not* return a requested
# entry, the list of errors. `BKNoSuchEntryException` is a denial: the bookie does not have the entry.
# `BKTimeoutException`, `BKDigestMatchException` and others mean that the copy could not be read.
#
# Recovery (lesson 08) had to distinguish these errors carefully. Do you have to do the same here?


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
# This function counts only an explicit denial:


# %% tags=["refused"]
def only_denials(ensemble, registered, failures):
    denied = {i for i, errors in failures.items() if "BKNoSuchEntryException" in errors}
    return [i for i, name in enumerate(ensemble) if name not in registered or i in denied]


check("repair.fragments", only_denials, must_pass=False)

# %% [markdown]
# Recovery asks whether an entry exists, and a wrong "no" loses the entry forever. A repair knows that the
# entry exists, and asks whether a particular copy can be read. An extra copy only costs some disk space,
# but a copy that cannot be read is worth nothing.

# %% [markdown]
# ## Exercise 3: the order of a repair
#
# Here are the four steps, in alphabetical order. The worker already holds the lock. Put the steps into an
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
# The ledger must remain marked until a test finds that no copy is missing. A worker that removes the mark
# earlier and then dies leaves a ledger that nobody will repair.

# %% [markdown]
# ## Break it: the metadata first
#
# A worker could put the new bookie into the metadata first and copy the entries to it afterwards. Some
# readers would ask the bookie too early, but they would simply try the next one. So what is the harm? Let
# the worker die halfway and start again, while the bookie that it copies from (b2) is slow.

# %%
early = worker_dies(delay_s)
hole = run(replace(early, variant="metadata before the copy"))
RecoveryProgress(hole)

# %% [markdown]
# The repair has finished, the mark has been removed, all remaining bookies are up, and yet the ledger has
# **1 of 2 copies** of some entries. Predict which entries these are. (The cell below reads this from the run's
# `epilogue`: after the last step of each run, the simulation repairs all faults and looks up every entry on
# every bookie that should have it, as in lesson 07.)

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
# The second worker followed its rule and asked b3, which the metadata now lists, for its first and its last
# entry. b3 had both. The missing entries are in between, and this check never finds them. If b2 dies, they
# are lost. If the copies are made first, the second worker finds the old metadata and starts over:

# %%
print(RecoveryProgress(run(early)))

# %% [markdown]
# So *the metadata lists a bookie only if the bookie has every copy that it should have*. That is why this
# cheap check is enough: it only looks at bookies that once had every entry.

# %% [markdown]
# ## The auditor dies while it is marking ledgers
#
# The auditor has marked one ledger, and it dies before it marks the others. Its plan is not stored
# anywhere.

# %%
round_broken = Crash("b0", down_ms=1000, when=On("ledger.underreplicated"))
RecoveryProgress(run(scenario.with_fault(round_broken)))

# %% [markdown]
# The auditor's vote exists as long as its session, so for some seconds, a dead bookie is still the auditor.
# b0 is back within a second, but its new vote is the last in the list, so the next bookie takes over. The
# new auditor knows nothing about the earlier round, and it does not need to. It compares the registered
# bookies with the metadata of all ledgers and marks the ledgers that lack copies. It does not mark a ledger
# twice. Starting over is always correct, just slow.

# %% [markdown]
# ### If one component dies, the others restart with it
#
# The auditor, the worker and the vote share one ZooKeeper session; the bookie's registration has another.
# Here, the auditor b0 is cut off from ZooKeeper (but from nothing else) for some seconds. The session
# timeout is 4 s, so both sessions expire.

# %%
cut_ms = 8000  # yours to change: 2000
apart = run(auditor_cut_off(cut_ms, delay_s))
told = "auditor.elected", "session.lost", "autorecovery.restarted", "bookie.registered"
print(sentences(apart, *told))

# %% [markdown]
# When the session expires, the vote and the locks disappear with it. If b0 simply continued, there would be
# two auditors. So all of b0's autorecovery stops and restarts with a new vote. Until then b0 may still
# believe that it is the auditor, but without ZooKeeper it can neither read metadata nor mark ledgers. In
# BookKeeper, the **DeathWatcher** does this: a thread that checks whether the auditor election and the worker
# are still running, and stops the process if one of them has died.

# %% [markdown]
# ## Missing copies without a lost bookie
#
# In the last run of lesson 07, `b2` was cut off from the writer just before the last entry. Two other bookies
# acknowledged the entry, and the ledger was closed. All bookies are up, so none of them is lost. BookKeeper
# #1390 is about this case. Who finds the missing copy, and when?

# %% [markdown]
# **Predict.** The writer starts in second 25, and `b2` misses the last entry a few milliseconds later. The
# auditor is elected in second 0 and checks all ledgers then. It repeats this check periodically, here with
# `check_interval_s = 20`. `lostBookieRecoveryDelay` is 10 seconds. In which second is the ledger marked?
# Answer with a number, or with -1 if it is never marked.

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
# the missing copy. It is the same check as the worker's: it reads the first and the last entry of each
# fragment from each bookie. With the default interval, the entry has only two copies for up to a week.
#
# Does the check also find the missing entries that "the metadata first" left in the middle of a fragment?
# `auditorLedgerVerificationPercentage` is the percentage of the other entries that it reads as well. The
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
# two bookies die during the writes, so there are three fragments:

# %%
dies_at = 3, 6  # confirmed entries when b1 dies, and when b3 dies; yours to change
pieces = run(two_bookies_lost(dies_at))
EnsembleHistory(pieces)

# %%
print(sentences(pieces, "ledger.underreplicated", "entry.copied", "ensemble.set"))

# %% [markdown]
# The ledger gets one mark, but each fragment is repaired separately: first its copies, then its segment in
# the metadata. The last fragment has all its copies, so it is not touched.

# %% [markdown]
# ## A ledger that is still open
#
# In the first picture, the repair of ledger 2 was deferred for thirty seconds. Why?

# %%
late = "replication.started", "replication.deferred", "recovery.started", "ledger.closed"
print(repair_of(trace, 2, *late, "ensemble.set", "replication.done"))

# %% [markdown]
# An open ledger may still have a writer. At its next add, the writer notices that the bookie is gone and
# replaces it (lesson 07), so the worker gives it `openLedgerRereplicationGracePeriod`. If the metadata still
# lists the lost bookie after that, the worker opens the ledger **with recovery**: it fences the writer, finds
# the end of the ledger and closes it (lesson 08). Then it repairs the ledger like any other closed ledger. A
# writer that was only slow loses its ledger, but none of the entries that were confirmed to it.

# %% [markdown]
# <details><summary>Why are marks persistent and locks ephemeral?</summary>
#
# A mark describes the ledger: it is valid until the ledger has been repaired, no matter which node dies. A
# lock identifies its worker: it is valid as long as that worker is alive.
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
# Some checks do not depend on a lost bookie: the auditor checks all ledgers once a week
# (`auditorPeriodicCheckInterval`, 604,800 s), and the registered bookies once a day
# (`auditorPeriodicBookieCheckInterval`). If an add to one bookie fails *after* `Qa` others have acknowledged
# the entry, the failure is not reported, and only the weekly check finds the missing copy (**#1390**).
#
# <details><summary>The auditor is cut off from ZooKeeper, and all bookies are fine. Does it mark all
# ledgers?</summary>
#
# No. Without a response from ZooKeeper it knows nothing and marks nothing: "could not ask" does not mean
# "is missing". When its session expires, the bookie with the next vote takes over.
# </details>
#
# The shell has the same commands as `bookkeeper shell`:
# ```
# labkit shell --zookeeper localhost:2181 whoisauditor
# labkit shell --zookeeper localhost:2181 listunderreplicated
# labkit shell --zookeeper localhost:2181 autorecovery -disable
# labkit shell --zookeeper localhost:2181 triggeraudit
# labkit shell --zookeeper localhost:2181 decommissionbookie -bookieid 10.0.0.7:3181
# ```
# `decommissionbookie` is for a bookie that you have shut down permanently: it triggers an audit, waits until
# no ledger refers to the bookie, and deletes its cookie.
#
# Known bugs in repair:
# - **#4163**: the flag that lets a copy through a fence was lost, so fenced ledgers could not be repaired.
# - **#4668**: a bookie that looks for over-replicated ledgers can delete a ledger that is still being copied
#   to it, because (as our rule requires) the metadata does not list the bookie until the copy is complete.
#   labkit therefore also checks marks and recently added entries.

# %% [markdown]
# ## Questions
#
# <details><summary>A worker dies after it has stored all copies but before it has put the new bookie into the
# metadata. What is lost?</summary>
#
# Only work. The ledger is still marked, the lock disappears with the worker's session, and the next worker
# copies everything again, maybe to another bookie. The first worker's copies are garbage. BookKeeper's
# bookies look for such ledgers once a day (`gcOverreplicatedLedgerWaitTime`), and so do labkit's.
# </details>
#
# <details><summary>Two bookies die within the delay. One ledger has Qw = 2. What happens?</summary>
#
# The auditor does not wait: if more than one bookie is missing, it marks ledgers immediately. But no worker
# can copy the entries whose only copies were on these two bookies. The worker reports which entry it
# could not read, keeps the lock for a while, and retries after longer and longer pauses. If one of the two
# bookies comes back, the repair succeeds.
# </details>
#
# <details><summary>A ledger is marked again while it is being repaired. Is the new mark lost?</summary>
#
# No. The worker deletes the mark only if its version is still the one that it had when the worker took the
# lock. The new mark has changed the version, so the deletion fails, the mark is kept, and a worker checks
# the ledger again.
# </details>
#
# **Next:** [10 garbage collection](10-garbage.ipynb). Why is the disk still full?
