# %% [markdown]
# # 10 · The backlog is zero. Why is the disk still full?
#
# Every message was read and acknowledged, Pulsar has deleted the ledgers, and the bookies' disks are as full as before; soon they are read-only and no client can write. Pulsar's issues #12942, #15332 and #20320 ask why. Often nothing is broken: bytes are freed later than ledgers, and in steps.
#
# **At the end you can**
# - say for every entry log of a bookie when its bytes are freed,
# - drop deleted ledgers without dropping a new one,
# - choose the logs that are worth compacting, and say what that costs,
# - put the steps of a compaction into the one order that survives a crash anywhere.
#
# **Takes** about 90 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 04.
#
# > **The rule.** No log is removed while an index on disk points to it, and every entry of an existing ledger is readable at any moment.
#
# Plain Python: one bookie on a simulated disk, with the real storage code.

# %% tags=["parameters"]
living_percent = [0, 10, 50, 90]  # ledger 5's part of each entry log, in steps of 5
minor_threshold = 0.2  # a minor compaction, often, takes logs below this
major_threshold = 0.8  # a major compaction, rarely, takes logs below this

# %%
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.one_bookie import OneBookie
from labkit.system.storage.entry_log import log_ids, log_name
from labkit.system.storage.garbage import deleted_ledgers, logs_to_compact, read_log_metadata
from labkit.views.widgets.log_usage import LogBar, LogUsage

parameters("10", globals())

# %% [markdown]
# ## 1 · The picture
#
# Two topics write to one bookie: one into ledger 5, the other into ledger 6. Here each flush of the memtable fills one entry log with 20 entries; in real life a log has 1 GiB and entries of thousands of ledgers.

# %%
bookie, next_id = OneBookie(), {5: 0, 6: 0}
store = bookie.store
for percent in living_percent:
    for slot in range(20):
        ledger = 5 if 5 * slot < percent else 6
        bookie.add((ledger, next_id[ledger]), payload_size=60)
        next_id[ledger] += 1
    bookie.commit()
    bookie.flush()


# %%
def logs(existing):
    disk = bookie.machine.ledgers[0]
    found = [read_log_metadata(disk, log_id) for log_id in log_ids(disk)]
    return LogUsage([LogBar(log_name(m.log_id), m.ledger_bytes) for m in found], existing)


def bytes_on_disk():
    return sum(bar.total_bytes for bar in logs({5, 6}).bars)


logs(existing={5, 6})

# %% [markdown]
# The second topic's last message is acknowledged, its backlog is zero, and Pulsar deletes ledger 6. It asks the metadata store, ZooKeeper, to remove one node. It asks no bookie.
#
# **Predict.** How many bytes does that free on this bookie?

# %%
# solution
predict("bytes freed by the deletion", 0)
# learner
# predict("bytes freed by the deletion", None)
# end

# %%
before = bytes_on_disk()
existing = {5}  # the ledgers that the metadata store has now
compare("bytes freed by the deletion", before - bytes_on_disk())

# %%
logs(existing)

# %% [markdown]
# Hatched is garbage: bytes of a ledger that no longer exists. The bookie does not know that yet. It still answers reads of ledger 6:

# %%
len(bookie.read(6, 0)), store.ledger_ids()

# %% [markdown]
# ## 2 · Collect
#
# Every `gcWaitTime` the bookie compares the ledgers that it stores with those that the metadata store has. It removes the index of a deleted ledger, and each log in which no ledger is left.
#
# **Predict.** How many of the logs does it remove?

# %%
# solution
predict("logs that go as a whole", living_percent.count(0))
# learner
# predict("logs that go as a whole", None)
# end

# %%
deleted = deleted_ledgers(store.ledger_ids(), existing)
empty = store.garbage.collect(deleted)
for log_id in empty:
    store.garbage.remove_log(log_id)
compare("logs that go as a whole", len(empty))

# %%
logs(existing)

# %% [markdown]
# So one small living ledger keeps a whole log. A quiet topic with a retention of weeks, or with a consumer that is away, shares its logs with every busy topic of the bookie.
#
# ### Your turn: which ledgers may be dropped?
#
# While the bookie asks, clients keep working. A client creates a ledger in the metadata store first, then adds entries to it. You get two functions: `list_stored()` asks the bookie, `ask_existing()` the metadata store, which may raise an error. Return the ids to drop. A real bookie drops them, while a client creates a ledger at every possible moment.


# %%
def my_dropped(list_stored, ask_existing):
    # solution
    stored = list_stored()
    existing = ask_existing()
    return [ledger_id for ledger_id in stored if ledger_id not in existing]
    # learner
    # raise NotImplementedError  # -> a list of ledger ids
    # end


# %% tags=["exercise"]
check("garbage.dropped", my_dropped)

# %% [markdown]
# The other order looks just as good, but loses an acknowledged entry:


# %% tags=["refused"]
def asks_first(list_stored, ask_existing):
    existing = ask_existing()
    return [ledger_id for ledger_id in list_stored() if ledger_id not in existing]


check("garbage.dropped", asks_first, must_pass=False)

# %% [markdown]
# ## 3 · Compact
#
# A log that is mostly garbage is **compacted**: its living entries are written again, after the newest entries, and then the log is removed. A **minor** compaction runs often and takes the nearly empty logs; a **major** one runs rarely and takes more logs.


# %%
def compact(threshold):
    for log_id in logs_to_compact(store.garbage.logs, threshold):
        copied = sum(batch.size_bytes for batch in store.garbage.compact(log_id, 1000))
        store.garbage.remove_log(log_id)
        print(f"{log_name(log_id)}: entries of {copied} bytes copied")


compact(minor_threshold)
logs(existing)

# %% [markdown]
# A log counts 4 more bytes for each entry: its length. **Predict.** A major compaction follows. How many bytes of garbage are left?

# %%
# solution
rest = [p for p in living_percent if p / 100 >= major_threshold]
predict("garbage after the major one", sum(20 - p // 5 for p in rest) * 100)
# learner
# predict("garbage after the major one", None)
# end

# %%
compact(major_threshold)
living = sum(bar.living_bytes(existing) for bar in logs(existing).bars)
compare("garbage after the major one", bytes_on_disk() - living)

# %%
logs(existing)

# %% [markdown]
# Garbage in a log above the threshold stays, until more of that log is deleted. Why not a threshold of 1? Because each living byte is written again. Here are twenty logs, from empty to 95 % living:

# %%
from labkit.system.storage.garbage import EntryLogMetadata

twenty = [EntryLogMetadata(i, 100, {5: 5 * i}) for i in range(20)]
for threshold in (0.1, minor_threshold, 0.5, major_threshold, 1.0):
    chosen = logs_to_compact(twenty, threshold)
    copied = sum(5 * i for i in chosen)
    last = 5 * chosen[-1] if chosen else 0
    freed = f"{last} to free {100 - last}"
    print(f"{threshold}: {len(chosen):>2} logs, {copied:>3} copied; for the last {freed}")

# %% [markdown]
# ### Your turn: which logs are worth it?
#
# `logs` are a bookie's finished logs: `log.log_id`, and `log.usage` (0 to 1: the living part). Return the ids of those to compact, in the order in which to compact them.


# %%
def my_worth(logs, threshold):
    # solution
    chosen = [log for log in logs if 0 < log.usage < threshold]
    return [log.log_id for log in sorted(chosen, key=lambda log: log.usage)]
    # learner
    # raise NotImplementedError  # -> a list of log ids
    # end


# %% tags=["exercise"]
check("garbage.worth", my_worth)

# %% [markdown]
# ## 4 · Every possible crash
#
# Two logs, two ledgers; one ledger is deleted and the bookie collects and compacts. Each row is an operation that it asks of its disks, and the machine stops just before it; each column says what happens to the data that was not synced (lesson 04).

# %%
from labkit.course.exercises.garbage import TWO_LOGS
from labkit.views.widgets.crash_map import CrashMapView
from labkit.worlds.sim.crash_map.crash_map import crash_map
from labkit.worlds.sim.variants.storage_variants import DEFECTS

CrashMapView(crash_map(TWO_LOGS))

# %% [markdown]
# ### Break something: do not wait for the sync
#
# This store removes the old log without syncing the copies first. These entries were acknowledged long ago: their journals are gone.
#
# **Predict.** Is it enough to kill the process (`"process"`), or must the power fail (`"power"`), to lose an entry?

# %%
# solution
predict("to lose an entry", "process")
# learner
# predict("to lose an entry", None)
# end

# %%
defect = DEFECTS["log removed before its copies are synced"]
hasty = crash_map(TWO_LOGS, store_factory=defect.store_factory)
by_a_kill = any(found.variant.name == "kept" for found in hasty.failures())
compare("to lose an entry", "process" if by_a_kill else "power")

# %%
CrashMapView(hasty)

# %% [markdown]
# The copies wait in the buffer of the process, so a killed process loses them. And replay does not help: the journal dropped these entries at their checkpoint.
#
# ### Your turn: the order of a compaction
#
# The five steps are in alphabetical order. Your order goes into the real collector; it is stopped before every operation, and after each step every entry is read.

# %%
steps = [
    "copy what lives",
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
# Of the 120 orders only one passes. This one ignores what the index on disk still says:

# %% tags=["refused"]
check("garbage.compaction", [steps[i] for i in (0, 3, 1, 2, 4)], must_pass=False)

# %% [markdown]
# ## 5 · When are the bytes freed?
#
# Each step has its own clock. These are the clocks of a topic and of a bookie with default settings:

# %%
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.views.widgets.step_list import Step, Steps

config = GarbageConfig()
tick_h = config.gc_wait_time_ms / 3_600_000
minor_h = config.minor_compaction_interval_s / 3600
major_h = config.major_compaction_interval_s / 3600
minor, major = config.minor_compaction_threshold, config.major_compaction_threshold

# %%
rollover = "full, or 4 h old; 10 min at least"
hourly, daily = (f"{hours:.0f} h after a collection" for hours in (minor_h, major_h))
Steps(
    [
        Step("every message is acknowledged"),
        Step("the ledger is closed", rollover, "managedLedger...Rollover...Minutes"),
        Step("its metadata are deleted", "up to 2 min, and retention", "the broker's timer"),
        Step("logs in which nothing lives go", f"up to {60 * tick_h:.0f} min", "gcWaitTime"),
        Step(f"logs of which less than {minor:.0%} lives go", hourly, "minorCompactionInterval"),
        Step(f"logs of which less than {major:.0%} lives go", daily, "majorCompactionInterval"),
    ]
)

# %% [markdown]
# **Predict.** Half of a log is living. Within how many hours after the deletion in the metadata is its garbage gone? Round to one decimal. A compaction begins at the first collection after its interval has passed.

# %%
# solution
predict("hours until half a log's garbage is gone", round(24 + 1 / 6, 1))
# learner
# predict("hours until half a log's garbage is gone", None)
# end


# %%
def within_h(usage):
    if usage == 0:
        return tick_h
    if usage < minor:
        return tick_h + minor_h
    if usage < major:
        return tick_h + major_h
    return float("inf")


compare("hours until half a log's garbage is gone", round(within_h(0.5), 1))

# %%
for percent in living_percent:
    hours = within_h(percent / 100)
    is_never = hours == float("inf")
    print(f"{percent:>3} % lives:", "when more of it is deleted" if is_never else f"{hours:.1f} h")

# %% [markdown]
# Add the time for the copying (`compactionRateByEntries`, or `compactionRateByBytes`), and everything that comes *before* the deletion. Pulsar deletes whole ledgers, so the ledger that a topic writes to stays, even if all of it is acknowledged; it is closed at 50,000 entries, 2 GiB or 4 hours, and never before it is 10 minutes old (`managedLedgerMinLedgerRolloverTimeMinutes`): that was the answer to #12942. Then retention must allow the deletion, and a timer checks every 2 minutes.
#
# <details><summary>Why is the current log never compacted?</summary>Its contents are not known before it is finished, and the copies of a compaction are written to it.</details>
#
# ## 6 · In the real system
#
# | here | Apache BookKeeper 4.17 |
# | --- | --- |
# | `system/bookie/garbage_collection.py` | `bookie/GarbageCollectorThread.java` (`runWithFlags`), every `gcWaitTime` (600,000 ms) |
# | `deleted_ledgers` | `ScanAndCompareGarbageCollector.gc`; `verifyMetadataOnGC` asks once more before it drops a ledger |
# | `logs_to_compact` | `GarbageCollectorThread.doCompactEntryLogs`: ten buckets of usage, the emptiest first |
# | minor, major | `minorCompactionThreshold` 0.2 and `minorCompactionInterval` 3600 s; `majorCompactionThreshold` 0.8 and `majorCompactionInterval` 86,400 s |
# | the defaults of the code | Pulsar's own `bookkeeper.conf` says 900,000 for `gcWaitTime` and 0.5 for `majorCompactionThreshold`: with that, half a log's garbage stays |
# | `GarbageCollector.compact` | `EntryLogCompactor`; at most `compactionRateByBytes` (1,000,000) a second if `isThrottleByBytes`, else `compactionRateByEntries` (1000) |
# | only entries that the index points to are copied | all entries of a living ledger, also copies that the index does not point to |
# | one compactor | a second one is off by default: `useTransactionalCompaction`, which copies into a separate log |
#
# **The trap of a full disk.** A compaction needs space before it frees any. Above `diskUsageThreshold` (0.95) BookKeeper suspends it, unless `isForceGCAllowWhenNoSpace` is set; logs without living entries are still removed. Act on the warning (`diskUsageWarnThreshold`, 0.90).
#
# **A known defect.** BookKeeper #4804: a transactional compaction that is finished after a crash names its log by the id in decimal, while all logs are named in hexadecimal: what should be `1a.log` becomes `26.log`.
#
# ## 7 · Questions
#
# <details><summary>A topic's backlog is zero and it has one ledger. When are its bytes freed?</summary>Not while the topic writes to that ledger. The ledger must be closed and followed by another before Pulsar may delete it; only then do the bookies' clocks start.</details>
# <details><summary>Three topics with a retention of a month write 1 % of a bookie's bytes, in small pieces at all times. How much does collecting without compaction free?</summary>Nothing for a month: each log has some of their bytes. A minor compaction frees nearly everything.</details>
# <details><summary>The machine stops after the copies are synced, before the index points to them. What happens to the copies?</summary>They are garbage in a log where their ledger lives. The index still points to the old log, which is compacted again. A log's usage counts by ledgers, so such copies count as living; when their log is compacted, labkit does not copy them, because no index points to them.</details>
# <details><summary>The metadata store does not answer. What does the bookie collect?</summary>Nothing. If it took an empty answer for the truth, it would drop every ledger that it has.</details>
#
# **Next:** [11 topics and MessageIDs](11-topics.ipynb): a message has an ID. What exactly does it name?
