# %% [markdown]
# # 09 · A bookie is gone for good. Who notices, and who repairs?
#
# Lesson 07 was about a writer that replaces a bookie when it fails. But most ledgers have no writer any
# more: they are closed, and only their readers ever look at them. When a bookie goes, each of its
# ledgers has one copy fewer, and no client notices. So the bookies look after each other.
#
# **At the end you can**
# - say when a bookie that is away counts as *lost*, and why a restart does not count,
# - read from ZooKeeper which bookie is the auditor, which ledgers lack copies and who repairs them,
# - decide which copies are missing, and put the steps of a repair into the one order that is safe
#   whenever the worker dies.
#
# **Takes** about 75 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 08.
#
# **The rule.** *The metadata names a bookie only when the bookie has all the copies it should have.*
# Copies first, then the metadata; and the ledger stays marked until a test finds nothing missing.

# %% tags=["parameters"]
lost = "b2"  # the bookie that goes for good: b1 or b2
delay_s = 10  # lostBookieRecoveryDelay
entry_count = 12  # entries of ledger 0

# %%
from dataclasses import replace

from labkit import At, Cluster, Crash, Delay, On, Read, Scenario, Write, run

# %%
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.broken_runs import sentences
from labkit.course.runs.znodes import znodes_of
from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.check import broken, check_all
from labkit.system.client.striping import write_set
from labkit.system.trace.sentence import describe
from labkit.views.widgets import EnsembleHistory
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.worlds.sim.scenario.faults import Partition

parameters("09", globals())

# %% [markdown]
# ## A picture first
#
# Five bookies, three ledgers. One bookie is killed after a second and never comes back. The reader
# only keeps the run going for a minute.

# %%
config = AutoRecoveryConfig(lost_bookie_recovery_delay_s=delay_s)
workload = (
    Write(0, entries=entry_count, ensemble=3, write_quorum=2),
    Write(1, entries=6, ensemble=2, write_quorum=2, client="w1"),
    Write(2, entries=6, ensemble=3, close=False, client="w2"),
    Read(0, polls=75, poll_ms=1000, when=At(100)),
)
scenario = Scenario(
    Cluster(5, autorecovery=config), workload, (Crash(lost, when=At(1000)),), limit_s=90
)
trace = run(scenario)
RecoveryProgress(trace)

# %% [markdown]
# **How to read it.** A column is a change, with its time above. Each bookie has a lane. Each ledger has
# a *strip* that says who works on it, and an *area* that shows how many of its copies exist. Pale blue
# are copies on a bookie that the metadata does not name yet. Point into the chart, or play it; the
# moment is described below it.
#
# Read it from left to right.
#
# 1. All bookies run autorecovery, and one of them was elected **auditor**.
# 2. The bookie dies. For some seconds this goes unnoticed: its *session* with ZooKeeper still lasts, and so
#    does its registration.
# 3. The registration is gone, and the auditor waits for `lostBookieRecoveryDelay`. Then it considers
#    the bookie lost and **marks** every ledger that names it.
# 4. **Workers**, one in each bookie, each lock a marked ledger, copy what is missing and put the new
#    bookie into the metadata. Two of them work at the same time, on different ledgers.
# 5. One ledger is *put off*. A later section explains why.
#
# ## Predict
#
# Now let another bookie go: `other`. Here ledgers use bookies in the order of their names: ledgers 0
# and 2 are on b0, b1 and b2, ledger 1 is on b0 and b1. Which ledgers will be marked?

# %%
other = "b1" if lost == "b2" else "b2"
my_ledgers = None
# solution
my_ledgers = [ledger for ledger, size in enumerate((3, 2, 3)) if int(other[1]) < size]
# end
predict(f"ledgers that are marked without {other}", my_ledgers)

# %% [markdown]
# And how many entries of ledger 0 must be copied? Its `E` is 3 and its `Qw` is 2: entry `e` is on the
# places `e % 3` and `(e + 1) % 3`.

# %%
my_copies = None
# solution
my_copies = sum(int(other[1]) in write_set(entry, 3, 2) for entry in range(entry_count))
# end
predict(f"entries of ledger 0 to copy without {other}", my_copies)


# %%
def marked(trace):
    return [event for event in trace.events if event.kind == "ledger.underreplicated"]


def copied(trace, ledger):
    return [e for e in trace.events if e.kind == "entry.copied" and e.ledger == ledger]


# %%
without = run(replace(scenario, faults=(Crash(other, when=At(1000)),)))
ledgers = sorted(event.ledger for event in marked(without))
compare(f"ledgers that are marked without {other}", ledgers)

# %%
compare(f"entries of ledger 0 to copy without {other}", len(copied(without, 0)))

# %% [markdown]
# To find the ledgers the auditor reads the metadata of **all** ledgers: there is no index by bookie.
# It does not ask any bookie for any entry. A mark is only a suspicion; the worker looks.
#
# ## Marks, locks and votes are nodes
#
# Auditor and workers never talk to each other. They share only this part of ZooKeeper, read here node by
# node from the moment when the second worker began. One ledger was repaired before its node was read:

# %%
moment = On("replication.started", nth=2)
(znodes,) = znodes_of(scenario, [moment], root="/ledgers/underreplication")
znodes

# %% [markdown]
# - `auditorelection/V_…`: one vote for each bookie, *ephemeral and sequential*. The smallest number is
#   the auditor, and every other bookie watches the vote before its own.
# - `ledgers/0000/0000/0000/0002/urL…`: a mark. It is persistent, so it survives every crash.
# - `locks/urL…`: who repairs the ledger. Ephemeral: when the worker's session ends, the ledger is free
#   again, and still marked.
#
# The text in these nodes is BookKeeper's own, byte for byte, and BookKeeper's workers accept marks that
# labkit's auditor has made.

# %% [markdown]
# ## A repair, event by event

# %%
repair = ("replication.started", "entry.copied", "ensemble.set", "replication.done")
start = next(event.seq for event in trace.events if event.kind == "replication.started")
for event in trace.events[start:]:
    if event.kind in repair and event.ledger == 0:
        print(f"{event.time_us / 1e6:7.3f} s  {describe(event)}")

# %% [markdown]
# How did the worker know what is missing? It asked. These are its reads before the first copy:

# %%
first_copy = copied(trace, 0)[0]
worker = first_copy.node
for event in trace.events[start : first_copy.seq]:
    if event.kind == "read.sent" and event.ledger == 0 and event.node == worker:
        print(f"entry {event.entry:>2} at {event.peer}")

# %% [markdown]
# A **fragment** is the entries of one segment. First the worker asks every registered bookie of the
# fragment for **its first and its last entry**, by the stripes; it does not ask the lost one at all. It
# does not check the entries in between, however many there are (`auditorLedgerVerificationPercentage`,
# 0 by default, is for that). Then it reads the entries to copy, each from a bookie that has it.
#
# Keep this test in mind: it is cheap, and that has a price.

# %% [markdown]
# ## Exercise 1: when is a bookie lost?
#
# A bookie that restarts is away, too. The auditor keeps a table of the missing bookies, with the second
# since which each one is missing, and asks your function when to read the metadata and mark ledgers. It
# asks again whenever something changes. Return a time, or `None` if there is nothing to wait for.
#
# Two concerns conflict: copying all ledgers of a bookie that only restarts is a lot of work for nothing;
# and when **more than one** is away, entries may be down to their last copy.


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
#     """When to audit (a time in seconds, now_s for at once), or None for not at all.
#
#     missing: for example {"b1": 4.0}: bookie -> the second since which it is missing.
#     """
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("repair.lost_bookies", when_to_audit)

# %% [markdown]
# Stuck? `hint("repair.lost_bookies")` gives three hints, one after the other.
#
# ### Break it: no delay
#
# The real auditor with one rule changed: a bookie counts as lost the moment it is gone. Here the bookie
# only restarts: six seconds later it is back with all its copies.

# %%
restart = replace(scenario, faults=(Crash(lost, down_ms=6000, when=At(1000)),))
hasty = run(replace(restart, variant="auditor without delay"))
for name, each in (("with the delay", run(restart)), ("without", hasty)):
    kinds = [event.kind for event in each.events]
    marks, copies = kinds.count("ledger.underreplicated"), kinds.count("entry.copied")
    print(f"{name + ':':<16} {marks} ledgers marked, {copies} entries copied")

# %%
print(broken(check_all(hasty))[0].reason)
RecoveryProgress(hasty)

# %% [markdown]
# No entry is lost. But think of a bookie with some terabytes: everything is read, sent and written
# once more, on machines that have other work. When the bookie comes back, the copies on its disks are
# garbage. Restart ten bookies one after the other for an upgrade, and it happens ten times.
#
# BookKeeper's default is **0**: no delay. The delay is for everyday operation; for upgrades there is a
# switch, `labkit shell --zookeeper … autorecovery -disable`.

# %% [markdown]
# ## Exercise 2: which copies are missing?
#
# The worker has asked. Your function gets the fragment's `ensemble`, the `registered` bookies, and the
# `failures`: the errors for each place of the ensemble whose bookie did *not* return what it was asked
# for. `BKNoSuchEntryException` is a denial: the bookie does not have the entry. `BKTimeoutException`,
# `BKDigestMatchException` and others say that the copy could not be read.
#
# Recovery (lesson 08) had to tell these apart with care. Must you?


# %%
# solution
def missing_places(ensemble, registered, failures):
    return [
        place
        for place, bookie in enumerate(ensemble)
        if bookie not in registered or place in failures
    ]


# learner
# def missing_places(ensemble, registered, failures):
#     """The places (0, 1, ...) of the ensemble whose copies must be made again.
#
#     For example ensemble ["b0", "b1", "b2"], registered ["b0", "b2", "b3"],
#     failures {2: ["BKTimeoutException"]}.
#     """
#     raise NotImplementedError
# end

# %% tags=["exercise"]
check("repair.fragments", missing_places)

# %% [markdown]
# This answer counts only a clear "no":

# %% tags=["refused"]
check(
    "repair.fragments",
    lambda ensemble, registered, failures: [
        place
        for place, bookie in enumerate(ensemble)
        if bookie not in registered or "BKNoSuchEntryException" in failures.get(place, ())
    ],
    must_pass=False,
)

# %% [markdown]
# Recovery asks *does this entry exist?*, and a wrong "no" loses the entry for ever. Repair knows that it
# exists, and asks *can this copy be read?* An extra copy costs some disk space; a copy that cannot be
# read is not a copy.

# %% [markdown]
# ## Break it: the metadata first
#
# A worker could name the new bookie first, and copy the entries to it afterwards. Some readers would ask
# it too early, but they would just try the next bookie. So what is the harm? Let the worker die halfway
# and start again, while one source of the copies (b2) is slow.

# %%
early = Scenario(
    Cluster(5, autorecovery=config),
    (Write(entries=10, write_quorum=2), Read(polls=35 + delay_s, poll_ms=1000, when=At(100))),
    (
        Crash("b1", when=At(1000)),
        Delay("b2", "*", 50, when=At(2000)),
        Crash("b0", down_ms=500, when=On("entry.copied", entry=9)),
    ),
)
hole = run(replace(early, variant="metadata before the copy"))
RecoveryProgress(hole)

# %% [markdown]
# The repair is done, the mark is gone, all bookies are up, and the ledger is at **1 of 2 copies**.
# Predict: which entries have only one copy? (After every run, the simulation looks up every entry on
# every bookie that should have it. That is the `epilogue`.)

# %%
my_entries = None
# solution
my_entries = [1, 4, 7]
# end
predict("entries with one copy", my_entries)

# %%
short = [e.entry for e in hole.events if e.node == "epilogue" and e.kind == "read.failed"]
compare("entries with one copy", short)

# %%
print(broken(check_all(hole))[0].reason)

# %% [markdown]
# The second worker followed its rule: it asked the named bookie b3 for its first and its last entry. Both
# were there. The hole is between them, and this test will never find it; when b2 dies, the entries
# are lost. With the copies first, the second worker finds the old metadata and starts over:

# %%
print(RecoveryProgress(run(early)))

# %% [markdown]
# That is why this cheap test is enough: it only tests bookies that once had everything.

# %% [markdown]
# ## Exercise 3: the order of a repair
#
# The four steps are in alphabetical order. A worker has the lock already. Put the steps into an order
# that is safe whenever the worker dies, and when a step fails. Your order goes into the real workers of
# all five bookies.

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
# And if the mark is removed before the test?

# %% tags=["refused"]
check("repair.order", [steps[i] for i in (2, 0, 1, 3)], must_pass=False)

# %% [markdown]
# ## The auditor dies in mid-round
#
# It has marked one ledger, and dies before it marks the others. Its plan is stored nowhere.

# %%
round_broken = Crash("b0", down_ms=1000, when=On("ledger.underreplicated"))
takeover = run(scenario.with_fault(round_broken))
RecoveryProgress(takeover)

# %% [markdown]
# Its vote lasts as long as its session, so for some seconds a dead bookie is the auditor. b0 is back
# within a second, but its new vote is the last in the list: the next bookie takes over. The new auditor
# knows nothing of the earlier round, and does not need to: it compares the registered bookies with all
# metadata, and marks what it finds. A ledger that is already marked gets no second mark. Starting over
# is always correct, just slow.

# %% [markdown]
# ### A part that dies takes the others with it
#
# Auditor, worker and vote live in one session with ZooKeeper; the bookie's registration has another.
# Here the auditor b0 is cut off from ZooKeeper for some seconds, and from nothing else. A session lasts
# 4 s, so the cut ends both.

# %%
cut_ms = 8000  # yours to change: 2000
cut_off = Partition(("b0",), ("zk",), for_ms=cut_ms, when=At(2000))
short = Write(entries=3), Read(polls=20, poll_ms=1000, when=At(100))
apart = run(Scenario(Cluster(3, autorecovery=config), short, (cut_off,), limit_s=60))
told = "auditor.elected", "session.lost", "autorecovery.restarted", "bookie.registered"
print(sentences(apart, *told))

# %% [markdown]
# With the session the vote is gone, and the locks. An auditor that went on would be a second one. So all
# of b0's autorecovery ends, and begins again with a new vote. In BookKeeper the **DeathWatcher** does
# this: a thread that looks whether auditor election and worker still run, and stops the process when one
# of them has died. At no time are there two auditors.

# %% [markdown]
# ## Looking without a lost bookie
#
# In the last run of lesson 07, `b2` was cut off from the writer before the last entry. Two others
# acknowledged it, the ledger was closed, and all bookies are up: none is lost. BookKeeper #1390 is about
# this. Who finds the missing copy, and when?


# %%
def missed_add(check_interval_s):
    audits = replace(config, auditor_periodic_check_interval_s=check_interval_s)
    write = Write(entries=6, window=3, when=At(1000))
    away = Partition(("w",), ("b2",), when=On("add.pushed", nth=6))
    reads = Read(polls=40, poll_ms=1000, when=At(1100))
    return run(Scenario(Cluster(4, autorecovery=audits), (write, reads), (away,), limit_s=60))


# %% [markdown]
# **Predict.** The auditor checks all ledgers when it is elected, at the very beginning, and then every 20
# seconds. In which second is the ledger marked? (With BookKeeper's default, a week, it is not marked
# within these 40 seconds.)

# %%
my_second = None
# solution
my_second = 20
# end
predict("second of the mark", my_second)

# %%
check_interval_s = 20  # yours to change: 10, 604_800 (a week), 0 (off)
checked = missed_add(check_interval_s)
print(sentences(checked, "ledger.underreplicated", "ensemble.set", "replication.done"))
compare("second of the mark", next((e.time_us // 1_000_000 for e in marked(checked)), None))

# %% [markdown]
# The check is the worker's test: the first and the last entry of each fragment, from each bookie. With
# the default, two copies have to do for a week.
#
# And the hole in the middle that "the metadata first" left? `auditorLedgerVerificationPercentage` is
# the share of the other entries that is tested, too; 0, the default, is none.

# %%
for percentage in (0, 100):  # yours to change
    audits = replace(config, auditor_ledger_verification_percentage=percentage)
    cluster = Cluster(5, autorecovery=audits)
    tested = run(replace(early, cluster=cluster, variant="metadata before the copy"))
    alone = [e.entry for e in tested.events if e.node == "epilogue" and e.kind == "read.failed"]
    asked = sum(e.kind == "read.sent" and e.node != "epilogue" for e in tested.events)
    print(f"{percentage:>3} % tested: {asked} reads, entries with one copy: {alone}")

# %% [markdown]
# It finds the hole, and reads every entry of every ledger to do so. That is why it is off.

# %% [markdown]
# ## Fragment by fragment
#
# A ledger whose ensemble has changed has several **fragments**, one for each segment. Two bookies die
# while it is written, so it has three:

# %%
dies_at = 3, 6  # entries that are confirmed when b1 dies, and then b3; yours to change
deaths = [Crash(n, when=On("lac.advanced", k)) for n, k in zip(("b1", "b3"), dies_at, strict=True)]
write = Write(entries=9, write_quorum=2, window=1, every_ms=10)
reads = Read(polls=20, poll_ms=1000, when=At(100))
quick = replace(config, lost_bookie_recovery_delay_s=5)
pieces = run(Scenario(Cluster(6, autorecovery=quick), (write, reads), tuple(deaths), limit_s=60))
EnsembleHistory(pieces)

# %%
print(sentences(pieces, "ledger.underreplicated", "entry.copied", "ensemble.set"))

# %% [markdown]
# One mark for the ledger, and each fragment is repaired by itself: its copies first, then its line in the
# metadata. The last fragment lacks nothing, and is not touched.

# %% [markdown]
# ## A ledger that is still open
#
# Back to the first picture: ledger 2 was put off for thirty seconds. Why?

# %%
late = ("replication.started", "replication.deferred", "recovery.started", "ledger.closed")
for event in trace.events[marked(trace)[0].seq :]:
    if event.kind in (*late, "ensemble.set", "replication.done") and event.ledger == 2:
        print(f"{event.time_us / 1e6:7.3f} s  {describe(event)}")

# %% [markdown]
# An open ledger may have a writer. At its next add the writer finds the bookie gone and replaces it
# (lesson 07), so the worker gives it `openLedgerRereplicationGracePeriod`. If the lost bookie is
# still named after that, the worker opens the ledger **with recovery**: it fences the writer, finds the
# end and closes the ledger (lesson 08). Then it is a closed ledger like any other. A writer that was
# only slow loses its ledger, but no entry that was confirmed to it.

# %% [markdown]
# <details><summary>Why are marks persistent and locks ephemeral?</summary>
#
# A mark is about the ledger: it is true until the ledger is repaired, whichever node dies. A lock is
# about a worker: it is true while the worker lives.
# </details>
#
# ## What the real system does
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `lostBookieRecoveryDelay`, default 0 | the same; a ZooKeeper node of that name takes precedence; writing its value again asks for an audit at once |
# | more than one bookie away: no delay | the same (`Auditor.submitAuditTask`) |
# | marks, locks, votes | the same nodes and texts (`ZkLedgerUnderreplicationManager`, `ZkLedgerAuditorManager`); a lock names the host instead of the bookie's id |
# | first and last entry, and `auditorLedgerVerificationPercentage` of the rest | the same (`LedgerChecker`); it looks only at the result code and verifies no digest |
# | a new bookie gets only the entries of its stripes | every entry of the range is copied to every new bookie, even where it does not belong (proposed change #3067) |
# | `openLedgerRereplicationGracePeriod`, 30 s | the same; a bookie that is only read-only counts as missing there, so a healthy writer can be fenced |
# | every bookie runs autorecovery | `autoRecoveryDaemonEnabled`, off by default, or a separate process: `bookkeeper autorecovery` (`AutoRecoveryMain`) |
# | auditor, worker | `replication/Auditor`, `ReplicationWorker`, `LedgerFragmentReplicator` |
#
# Some checks run without a lost bookie: the auditor checks all ledgers once a week
# (`auditorPeriodicCheckInterval`, 604,800 s), and the registered bookies once a day
# (`auditorPeriodicBookieCheckInterval`). Only the weekly check finds a bookie whose add failed *after*
# `Qa` others had confirmed the entry (**#1390**): that failure is not reported.
#
# <details><summary>The auditor is cut off from ZooKeeper, and all bookies are fine. Does it mark all
# ledgers?</summary>
#
# No. Without an answer it knows nothing, and marks nothing: "could not ask" is not "is not there". When
# its session ends, the bookie with the next vote takes over.
# </details>
#
# The commands of the shell are those of `bookkeeper shell`:
# ```
# labkit shell --zookeeper localhost:2181 whoisauditor
# labkit shell --zookeeper localhost:2181 listunderreplicated
# labkit shell --zookeeper localhost:2181 autorecovery -disable
# labkit shell --zookeeper localhost:2181 triggeraudit
# labkit shell --zookeeper localhost:2181 decommissionbookie -bookieid 10.0.0.7:3181
# ```
# `decommissionbookie` is for a bookie that you have stopped for good: it asks for an audit, waits until
# no ledger names the bookie any more, and removes its cookie.
#
# Known defects around repair:
# - **#4163**: the flag that lets a copy pass a fence got lost, and fenced ledgers could not be repaired.
# - **#4668**: a bookie that looks for over-replicated ledgers can delete one that is just being copied to
#   it: by our rule the metadata do not name the bookie yet. labkit also checks marks and recently added
#   entries.

# %% [markdown]
# ## Questions
#
# <details><summary>A worker dies after it has stored all copies, before it has named the new bookie.
# What is lost?</summary>
#
# Only work. The mark is still there, the lock ends with the worker's session, and the next worker copies
# everything again, maybe to another bookie. The first worker's copies are garbage. BookKeeper's bookies
# look for such ledgers once a day (`gcOverreplicatedLedgerWaitTime`), and so do labkit's.
# </details>
#
# <details><summary>Two bookies die within the delay. One ledger has Qw = 2. What now?</summary>
#
# The auditor does not wait: when more than one is missing it marks at once. But no worker can copy
# entries that were on exactly these two. The worker reports which entry it could not read, keeps the
# lock for a while, and tries again after growing pauses. If one of the two comes back, the repair
# succeeds.
# </details>
#
# <details><summary>A ledger is marked again while it is being repaired. Is the new mark lost?</summary>
#
# No. The worker removes the mark with the version that it had when the lock was taken. A new mark has
# changed the version, so the removal fails, the mark stays, and a worker looks at the ledger again.
# </details>
#
# **Next:** [10 garbage collection](10-garbage.ipynb): why is the disk still full?
