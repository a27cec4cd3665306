# %% [markdown]
# # 10 · The backlog is zero. Why is the disk still full?
#
# Every message has been read and acknowledged, Pulsar has deleted the ledgers, and yet the bookies' disks are as full as before. Soon the bookies will be read-only, and clients will no longer be able to write. In Pulsar's issues #12942, #15332 and #20320, users ask why. Often, nothing is broken. Bookies free disk space in several steps, long after the ledgers have been deleted.
#
# **At the end you can**
# - say when the disk space of each of a bookie's entry logs is freed,
# - drop deleted ledgers without dropping new ones,
# - choose the logs that are worth compacting, and say what that costs,
# - put the steps of a compaction in the one order that survives a crash at any moment.
#
# **Takes** about 90 minutes. **Needs** only Python, and also works in a browser tab. **Prerequisite:** lesson 04.
#
# > **The rule.** A bookie deletes a log only if no index on disk points to it. Every entry of an existing ledger is readable at all times.
#
# This lesson is plain Python: one bookie on a simulated disk, with the real storage code.

# %% tags=["parameters"]
living_percent = [0, 10, 50, 90]  # ledger 5's share of each entry log, in steps of 5
minor_threshold = 0.2  # frequent minor compactions rewrite logs below this
major_threshold = 0.8  # rare major compactions rewrite logs below this

# %%
from math import isinf

from labkit.course.lessons import (
    DEFECTS,
    TWO_LOGS,
    CrashMapView,
    bookie_with_logs,
    bytes_on_disk,
    check,
    collect_garbage,
    compact_logs,
    compare,
    cost_of_compaction,
    crash_map,
    garbage_bytes,
    hint,
    hours_until_freed,
    log_usage,
    parameters,
    predict,
    steps_that_free_space,
)

parameters("10", globals())

# %% [markdown]
# ## 1 · The picture
#
# Two topics write to one bookie, one to ledger 5 and the other to ledger 6. Here each flush of the memtable fills one entry log with 20 entries. In production, a log grows to 1 GiB and contains entries of thousands of ledgers.

# %%
bookie = bookie_with_logs(living_percent)
log_usage(bookie, existing={5, 6})

# %% [markdown]
# The last message of the second topic has been acknowledged. The topic's backlog is zero, and Pulsar deletes ledger 6.
#
# **Predict.** How many bytes does the deletion free on the bookie before anything else happens?

# %%
# solution
predict("bytes freed by the deletion", 0)
# learner
# predict("bytes freed by the deletion", None)
# end

# %%
before = bytes_on_disk(bookie)
existing = {5}  # the ledgers that are left in the metadata store
compare("bytes freed by the deletion", before - bytes_on_disk(bookie))

# %%
log_usage(bookie, existing)

# %% [markdown]
# To delete a ledger, Pulsar deletes one znode in the metadata store, ZooKeeper. It does not send a request to any bookie. The hatched areas are garbage: bytes of a ledger that no longer exists. The bookie does not know that yet, so you can still read ledger 6:

# %%
len(bookie.read(6, 0)), bookie.store.ledger_ids()

# %% [markdown]
# ## 2 · Collect
#
# Once per `gcWaitTime`, the bookie compares the ledgers that it stores with the ledgers in the metadata store. It deletes the index of each deleted ledger, and each log that has no entries of existing ledgers.
#
# **Predict.** How many of the logs does it delete?

# %%
# solution
predict("logs deleted without compaction", living_percent.count(0))
# learner
# predict("logs deleted without compaction", None)
# end

# %%
compare("logs deleted without compaction", len(collect_garbage(bookie, existing)))

# %%
log_usage(bookie, existing)

# %% [markdown]
# So a single small ledger can keep a whole log on disk. And if a quiet topic retains its messages for weeks, or its consumer is offline, its entries are in the same logs as the entries of every busy topic on the bookie.
#
# ### Your turn: which ledgers can be dropped?
#
# Clients continue to work while the bookie compares the two lists. A client first creates a ledger in the metadata store and then adds entries to it. You get two functions: `list_stored()` lists the bookie's ledgers, and `ask_existing()` lists the ledgers in the metadata store. `ask_existing()` may raise an error. Return the ids of the ledgers to drop. A real bookie then drops them. The check does this many times. Each time, a client creates a ledger at a different moment, until every possible moment has been tried.


# %%
def my_dropped(list_stored, ask_existing):
    # solution
    stored = list_stored()
    existing = ask_existing()
    return [ledger_id for ledger_id in stored if ledger_id not in existing]
    # learner
    # raise NotImplementedError  # return a list of ledger ids
    # end


# %% tags=["exercise"]
check("garbage.dropped", my_dropped)

# %% [markdown]
# *Stuck? Run `hint("garbage.dropped")` in a new cell for the first of three hints.*
#
# The opposite order looks just as good, but loses an acknowledged entry:


# %% tags=["refused"]
def asks_first(list_stored, ask_existing):
    existing = ask_existing()
    return [ledger_id for ledger_id in list_stored() if ledger_id not in existing]


check("garbage.dropped", asks_first, must_pass=False)

# %% [markdown]
# ## 3 · Compact
#
# When a log is mostly garbage, the bookie **compacts** it: it appends the live entries to the current log and then deletes the old log. A **minor** compaction runs often and rewrites only logs that are nearly empty. A **major** compaction runs rarely and rewrites more logs.

# %%
for name, copied in compact_logs(bookie, minor_threshold).items():
    print(f"{name}: entries of {copied} bytes copied")
log_usage(bookie, existing)

# %% [markdown]
# Each entry takes 100 bytes in a log, including its length word. **Predict.** You run a major compaction next. How many bytes of garbage are left?

# %%
# solution
rest = [p for p in living_percent if p / 100 >= major_threshold]
predict("garbage after the major compaction", sum(20 - p // 5 for p in rest) * 100)
# learner
# predict("garbage after the major compaction", None)
# end

# %%
for name, copied in compact_logs(bookie, major_threshold).items():
    print(f"{name}: entries of {copied} bytes copied")
compare("garbage after the major compaction", garbage_bytes(bookie, existing))

# %%
log_usage(bookie, existing)

# %% [markdown]
# A log above the threshold keeps its garbage until more of its entries have been deleted. Why not use a threshold of 1? Because the bookie would then have to rewrite almost every live byte. Here are twenty logs, from empty to 95 % live:

# %%
for threshold in (0.1, minor_threshold, 0.5, major_threshold, 1.0):
    print(f"{threshold}: {cost_of_compaction(threshold)}")

# %% [markdown]
# ### Your turn: which logs are worth compacting?
#
# `logs` lists a bookie's finished logs. Each log has a `log.log_id` and a `log.usage`, which is the fraction of the log that is live, from 0 to 1. Return the ids of the logs to compact, in the order in which the bookie should compact them.


# %%
def my_worth(logs, threshold):
    # solution
    chosen = [log for log in logs if 0 < log.usage < threshold]
    return [log.log_id for log in sorted(chosen, key=lambda log: log.usage)]
    # learner
    # raise NotImplementedError  # return a list of log ids
    # end


# %% tags=["exercise"]
check("garbage.worth", my_worth)

# %% [markdown]
# ## 4 · Every possible crash
#
# A bookie has two logs with entries of two ledgers. One ledger is deleted. The bookie then collects garbage and compacts. Each row is a disk operation, and the machine crashes just before it. Each column says what happens to the unsynced data (lesson 04).

# %%
CrashMapView(crash_map(TWO_LOGS))

# %% [markdown]
# ### Break something: do not wait for the sync
#
# This store deletes the old log without syncing the copies first. The entries were acknowledged long ago, so the journals that contained them have been deleted.
#
# **Predict.** Is killing the process enough to lose an entry (`"process"`), or does the power have to fail (`"power"`)?

# %%
# solution
predict("to lose an entry", "process")
# learner
# predict("to lose an entry", None)
# end

# %%
defect = DEFECTS["log removed before its copies are synced"]
hasty = crash_map(TWO_LOGS, store_factory=defect.store_factory)
compare("to lose an entry", "power" if hasty.losing_crashes() == "power" else "process")

# %%
CrashMapView(hasty)

# %% [markdown]
# The copies are still in a buffer of the process, so killing the process loses them. Replay does not help. These entries were checkpointed long ago, so the journal no longer contains them.
#
# ### Your turn: the order of a compaction
#
# Here are the five steps, in alphabetical order. The real garbage collector runs them in your order. The check crashes it before every disk operation. It also reads every entry after each step.

# %%
steps = [
    "copy the live entries",
    "point the index to the copies",
    "remove the old log",
    "sync the copies",
    "sync the index",
]

# %%
my_order = None
# solution
my_order = [steps[i] for i in (0, 3, 1, 4, 2)]
# end

# %% tags=["exercise"]
check("garbage.compaction", my_order)

# %% [markdown]
# Only one of the 120 possible orders passes. This one deletes the log while the index on disk still points to it:

# %% tags=["refused"]
check("garbage.compaction", [steps[i] for i in (0, 3, 1, 2, 4)], must_pass=False)

# %% [markdown]
# ## 5 · When is the disk space freed?
#
# Each step has its own timer. These are the timers of a topic and of a bookie with default settings:

# %%
steps_that_free_space()

# %% [markdown]
# **Predict.** Half of a log's data is still live. After the metadata has been deleted, how many hours can it take until the log's garbage is gone? Round to one decimal place. A compaction starts at the first collection after its interval has elapsed.

# %%
# solution
predict("hours until half a log's garbage is gone", round(24 + 1 / 6, 1))
# learner
# predict("hours until half a log's garbage is gone", None)
# end

# %%
compare("hours until half a log's garbage is gone", round(hours_until_freed(0.5), 1))

# %%
for percent in living_percent:
    hours = hours_until_freed(percent / 100)
    never = "not before more of it is deleted"
    print(f"{percent:>3} % live: {never if isinf(hours) else f'within {hours:.1f} h'}")

# %% [markdown]
# To this, add the time for copying (`compactionRateByEntries` or `compactionRateByBytes`), and the time until the metadata is deleted. Pulsar deletes only whole ledgers. It keeps the ledger that a topic is writing to, even if every message in it has been acknowledged. Pulsar closes a ledger after 50,000 entries, 2 GiB or 4 hours, but never before it is 10 minutes old (`managedLedgerMinLedgerRolloverTimeMinutes`). This explained #12942. After that, retention must allow the deletion. A timer checks this every 2 minutes.
#
# <details><summary>Why is the current log never compacted?</summary>Its contents are not final until the log is finished, and compactions append their copies to it.</details>
#
# ## 6 · In the real system
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `system/bookie/garbage_collection.py` | `bookie/GarbageCollectorThread.java` (`runWithFlags`), every `gcWaitTime` (600,000 ms) |
# | `deleted_ledgers` | `ScanAndCompareGarbageCollector.gc`; with `verifyMetadataOnGC`, it checks the metadata again before it drops a ledger |
# | `logs_to_compact` | `GarbageCollectorThread.doCompactEntryLogs`: ten buckets by usage, the emptiest first |
# | minor, major | `minorCompactionThreshold` 0.2 and `minorCompactionInterval` 3600 s; `majorCompactionThreshold` 0.8 and `majorCompactionInterval` 86,400 s |
# | the defaults in the code | Pulsar's own `bookkeeper.conf` sets `gcWaitTime` to 900,000 and `majorCompactionThreshold` to 0.5, so a log that is half garbage is not compacted |
# | `GarbageCollector.compact` | `EntryLogCompactor`; at most `compactionRateByBytes` (1,000,000) per second if `isThrottleByBytes`, otherwise `compactionRateByEntries` (1000) |
# | copies only entries that the index points to | copies all entries of a live ledger, including those that the index does not point to |
# | one compactor | a second one copies entries to a separate log; it is off by default (`useTransactionalCompaction`) |
#
# **The trap of a full disk.** A compaction needs disk space before it frees any. Above `diskUsageThreshold` (0.95), BookKeeper suspends compaction unless `isForceGCAllowWhenNoSpace` is set. It still deletes logs without live entries. So act when you get the warning (`diskUsageWarnThreshold`, 0.90).
#
# **A known bug.** If BookKeeper completes a transactional compaction after a crash, the new log gets a decimal name, while all other logs have hexadecimal names: `26.log` instead of `1a.log` (BookKeeper #4804).
#
# ## 7 · Questions
#
# <details><summary>A topic has one ledger and its backlog is zero. When is the ledger's disk space freed?</summary>Not while the topic is writing to that ledger. Before Pulsar can delete the ledger, it must close the ledger and start another one. After that, it depends on the bookies' timers.</details>
# <details><summary>Three topics with a retention of one month write 1 % of a bookie's data, a little at a time but continuously. How much disk space does garbage collection free without compaction?</summary>None for a month, because every log contains some of their entries. A minor compaction frees almost everything.</details>
# <details><summary>The machine crashes after the copies have been synced, but before the index points to them. What happens to the copies?</summary>They are garbage, but they count as live, because labkit computes a log's usage per ledger. The index still points to the old log, so the bookie compacts the old log again. When it later compacts the log with these copies, labkit does not copy them again, because no index points to them.</details>
# <details><summary>The metadata store is not responding. What does the bookie collect?</summary>Nothing. If it treated a missing response as an empty list, it would drop every ledger.</details>
#
# **Next:** [11 topics and MessageIDs](11-topics.ipynb). A message has an ID. What exactly does it identify?
