# %% [markdown]
# # 03 · How does a bookie find one entry among millions, although it writes all ledgers into one file?
#
# A bookie stores thousands of ledgers at once. With a file for each, the disk would jump from file to file with every write. So a bookie does the opposite: **one** file, the entry log, for all ledgers. This lesson follows entries from memory into that file, and finds one of them again with a look into an index and a look into the log.
#
# **At the end you can** say in which order entries lie in an entry log, split a location into file and offset, compute where the index keeps it, and tell a tailing read from a catch-up read.
#
# **Takes** about 60 minutes. **Needs** Python alone, in a browser tab as well. **After** lesson 02.
#
# | word | what it is |
# | --- | --- |
# | **memtable** | the newest entries, in memory, sorted |
# | **flush** | writing the memtable to disk, all at once |
# | **entry log** | a file with the entries of all ledgers, one after the other |
# | **index** | one file per ledger: for each entry id the place of the entry in the entry logs |
#
# > **The rule.** Entry *e* of a ledger has its location at byte *1024 + 8 e* of the ledger's index, and it is written there only after the entry itself is on disk: **an index never points at nothing.**

# %% tags=["parameters"]
ledger_count = 2
entries_per_ledger = 4
page_size = 512

# %% [markdown]
# ## 1 · Two ledgers, interleaved
#
# You have a bookie on a simulated disk. Its clients write several ledgers at the same time, so their entries arrive interleaved. `8/0` is entry 0 of ledger 8.

# %%
from dataclasses import replace

from labkit import Cluster, Scenario, Write, run
from labkit.course.lessons import check, compare, hint, parameters, predict
from labkit.course.runs.one_bookie import OneBookie
from labkit.system.model.byte_region import Piece
from labkit.system.storage.xray import entry_log_spans
from labkit.views.widgets import BookieInside, XRay
from labkit.worlds.sim.settings.bookie_script import CONFIG

parameters("03", globals())

# %%
bookie = OneBookie()
ledgers = range(7, 7 + ledger_count)
for entry_id in range(entries_per_ledger):
    bookie.add(*((ledger_id, entry_id) for ledger_id in reversed(ledgers)))
    bookie.commit()
BookieInside(bookie.trace, page_size=page_size)

# %% [markdown]
# Press ▶, or step with `|▶`. Each entry is put into the **memtable** and gets a record in the **journal**. The journal keeps them *as they come*; one sync makes a group durable, and padding ends it ([lesson 02](02-journal.ipynb)). The memtable is sorted. The ledger disk is still empty.
#
# **Predict.** The next cell but one flushes the memtable. In which order will the entries lie in the entry log? Name the first three, such as `["8/0", "7/0", "8/1"]`.

# %%
# solution
my_order = ["7/0", "7/1", "7/2"]
# learner
# my_order = None  # ["...", "...", "..."]
# end
predict("order in the entry log", my_order)

# %%
bookie.flush()
BookieInside(bookie.trace, page_size=page_size)

# %%
written = [e for e in bookie.trace.events if e.kind == "entry_log.written"]
in_log = [f"{e.ledger}/{e.entry}" for e in written]
compare("order in the entry log", in_log[:3])

# %% [markdown]
# Step backwards through the flush (`◀|`). Entries go into `0.log`, which is synced; their locations go into the index, which is synced; then the memtable forgets them; last of all **LastLogMark** moves, and the records before it turn pale: replay no longer needs them ([lesson 04](04-last-log-mark.ipynb)).
#
# ## 2 · Why sorted?
#
# Count how often a reader of one ledger has to jump, because something else lies between one entry and the next:


# %%
from itertools import pairwise


def jumps(kind, ledger_id=7):
    """How often the ledger's next entry does not lie right behind the one before."""
    in_file = [e for e in bookie.trace.events if e.kind == kind]
    places = [place for place, e in enumerate(in_file) if e.ledger == ledger_id]
    return sum(after - before > 1 for before, after in pairwise(places))


print(f"reading ledger 7: {jumps('journal.appended')} jumps in the journal,")
print(f"                  {jumps('entry_log.written')} jumps in the entry log")

# %% [markdown]
# The journal is written in the order of arrival, because it must be fast to write; it is read only after a crash. The entry log is written later, so it can be sorted for its readers.
#
# **Do.** Write the order of a flush. You get the entries in the order of their arrival, each as `(ledger_id, entry_id)`. `check` puts your function into a real memtable and looks at the file that it writes.


# %% tags=["exercise"]
def flush_order(arrivals):
    # solution
    return sorted(arrivals)
    # learner
    # raise NotImplementedError  # return the entries in the order of the entry log
    # end


check("storage_path.flush_order", flush_order)

# %% [markdown]
# Stuck? Run `hint("storage_path.flush_order")` in a new cell for the first of three hints.
#
# ### One log for all, or one for each?
#
# With `entryLogPerLedgerEnabled` a bookie does what the first lines of this lesson warn of: each ledger has a separate log. Two ledgers, two entries each, flushed; these are the logs from the first entry on.


# %%
def flushed_logs(entry_log_per_ledger):
    config = replace(CONFIG, entry_log_per_ledger_enabled=entry_log_per_ledger)
    bookie = OneBookie(config)
    for entry_id in range(2):
        bookie.add((8, entry_id), (7, entry_id))
    bookie.commit()
    bookie.flush()
    return bookie


# %%
def logs_of(bookie):
    disk = bookie.machine.ledgers[0]
    for name in disk.files("current", ".log"):
        path, log_id = f"current/{name}", int(name.removesuffix(".log"), 16)
        spans = tuple(s for s in entry_log_spans(disk, log_id) if s.offset >= 1024)
        file = disk.open(path)
        if spans:
            data = file.read(1024, file.size() - 1024)
            yield Piece("entry log", path, 1024, data, spans, file.size())


# %%
entry_log_per_ledger = False  # yours to change
XRay(tuple(logs_of(flushed_logs(entry_log_per_ledger))))

# %%
for per_ledger in (False, True):
    other = flushed_logs(per_ledger)
    operations = other.machine.ledgers[0].fuse.operations
    syncs = sum(o.kind == "sync" and o.path.endswith(".log") for o in operations)
    print(f"one log per ledger {per_ledger!s:<5}: {len([*logs_of(other)])} logs, {syncs} syncs")

# %% [markdown]
# One log per ledger can be removed as soon as its ledger is deleted, without compaction ([lesson 10](10-garbage.ipynb)). It costs a file, and a sync at each flush, for every ledger that is being written.
#
# ## 3 · One number says where
#
# Here is one entry in all its places. Point at the bytes: each field has the same colour everywhere.

# %%
XRay(bookie.places(7, 1))

# %% [markdown]
# Journal and entry log hold the same bytes: a length, then the entry as its client packed it. The index holds 8 bytes: the **location**. Its upper half is the number of the entry log, its lower half the offset of the entry *after* the length. For example, `0x0000000500000404` is log 5, offset 1028. 0 means: this bookie does not have the entry.
#
# **Do.** Pack a location.


# %% tags=["exercise"]
def location_of(log_id, offset):
    # solution
    return log_id << 32 | offset
    # learner
    # raise NotImplementedError  # one 64-bit number out of two 32-bit numbers
    # end


check("storage_path.location", location_of)

# %% [markdown]
# ## 4 · Index, then log
#
# Now find the entry by hand, with nothing but the disk. First the index: the location of entry *e* is at byte 1024 + 8 *e*, so nothing has to be searched.

# %%
from labkit.system.storage.index.ledger_index import index_path

disk = bookie.machine.ledgers[0]
slot = disk.open(index_path(7)).read(1024 + 8 * 1, 8)
location = int.from_bytes(slot, "big")
print(f"entry 1 of ledger 7: location {location:#018x}")
print(f"log {location >> 32}, offset {location & 0xFFFFFFFF}")

# %% [markdown]
# Then the entry log, at that offset. The entry's first 16 bytes are its ids; the bookie compares them before it returns the entry.

# %%
log = disk.open(f"current/{location >> 32:x}.log")
offset = location & 0xFFFFFFFF
size = int.from_bytes(log.read(offset - 4, 4), "big")
entry = log.read(offset, size)
print("ledger", int.from_bytes(entry[:8], "big"), "entry", int.from_bytes(entry[8:16], "big"))
print("the same bytes that the bookie gives:", entry == bookie.read(7, 1))

# %% [markdown]
# One read of the index and two of the log, whether the bookie has eight entries or eight hundred million.
#
# The index is read and written in **pages**. A page is just a run of these 8-byte slots: the page size may change from one start to the next, and every location stays where it is.
#
# **Do.** Which page holds entry *e*, and at which of its bytes does the location begin?


# %% tags=["exercise"]
def index_slot(entry_id, page_size):
    # solution
    return divmod(8 * entry_id, page_size)
    # learner
    # raise NotImplementedError  # return (page, byte in the page)
    # end


check("storage_path.index_slot", index_slot)

# %% [markdown]
# ### Changed pages wait in memory
#
# A flush changes a page of each ledger's index. These pages form the **index cache**: they stay in memory until the flush ends, or until there are more of them than `pageLimit`.


# %%
def index_flushes(page_limit, ledgers=4):
    """The ledgers whose pages are written together, for each time that the index is flushed."""
    bookie = OneBookie(replace(CONFIG, page_limit=page_limit))
    bookie.add(*((ledger_id, 0) for ledger_id in range(ledgers)))
    bookie.commit()
    bookie.flush()
    rounds = [[]]
    for operation in bookie.machine.ledgers[0].fuse.operations:
        if ".idx" in operation.path and operation.kind == "sync" and rounds[-1]:
            rounds.append([])
        elif ".idx" in operation.path and operation.kind == "write" and operation.offset >= 1024:
            rounds[-1].append(operation.path.rpartition("/")[2].partition(".")[0])
    return rounds[:-1]


# %% [markdown]
# **Predict.** One entry for each of four ledgers changes four pages. With `pageLimit` 2, how often is the index written while the memtable is flushed?

# %%
# solution
predict("times that the index is written", 2)
# learner
# predict("times that the index is written", None)
# end

# %%
page_limit = 2  # yours to change: 1, 3, -1 (as many as the bookie likes)
for number, ledgers_written in enumerate(index_flushes(page_limit), 1):
    print(f"{number}. pages of the ledgers {', '.join(ledgers_written)}")
compare("times that the index is written", len(index_flushes(page_limit)))

# %% [markdown]
# The third page is one too many: all three are written and synced at once. The end of the flush brings the fourth.
#
# ## 5 · Tailing and catching up
#
# A consumer that keeps up reads what was just written; a consumer that was away reads old entries. Add one more entry to ledger 7 and read its newest and its oldest entry.
#
# **Predict.** Which of the two reads needs no disk: `"newest"` or `"oldest"`?

# %%
# solution
my_read = "newest"
# learner
# my_read = None
# end
predict("the read without a disk", my_read)

# %%
newest = entries_per_ledger
bookie.add((7, newest))
bookie.commit()
bookie.read(7, newest)
BookieInside(bookie.trace, page_size=page_size)

# %% [markdown]
# A **tailing read**: found in the memtable. Now the oldest entry:

# %%
bookie.read(7, 0)
BookieInside(bookie.trace, page_size=page_size)

# %%
served = [e for e in bookie.trace.events if e.kind == "read.served"][-2:]
where = {"newest": served[0].note, "oldest": served[1].note}
compare("the read without a disk", next(k for k in where if "memtable" in where[k]))

# %% [markdown]
# A **catch-up read**: index, then entry log. Readers that keep up never touch the disk; that is the memtable's second purpose, besides sorting.
#
# ## 6 · Full, or due
#
# Until here you called `flush()` yourself. Now let real bookies decide, in the simulated world: a writer adds 60 entries to three bookies, one every 10 ms, and these are the flushes of one of them.


# %%
def flushes(memtable_bytes, flush_interval_ms):
    storage = replace(CONFIG, skip_list_size_limit=memtable_bytes)
    cluster = Cluster(3, storage=storage, flush_interval_ms=flush_interval_ms)
    events = run(Scenario(cluster, (Write(entries=60, every_ms=10),))).events
    flushed = [e for e in events if e.kind == "memtable.flushed" and e.node == "b0"]
    return [(e.time_us // 1000, e.size) for e in flushed if e.size]


# %%
for interval_ms in (100, 250):  # yours to change
    found = [f"{at_ms} ms: {count}" for at_ms, count in flushes(1 << 26, interval_ms)]
    print(f"interval {interval_ms} ms  entries flushed after", *found, sep="  ")

# %% [markdown]
# The memtable was never full; `flushInterval` had passed. Index and entry log are flushed with it, so this is the timer of the index pages, too.
#
# **Predict.** Each entry takes 68 bytes. The memtable counts as full once it has 2000 bytes or more (`skipListSizeLimit`), and the interval is ten seconds. How many entries does a flush bring to the disk?

# %%
# solution
predict("entries in a full memtable", 30)
# learner
# predict("entries in a full memtable", None)
# end

# %%
memtable_bytes = 2000  # yours to change
compare("entries in a full memtable", flushes(memtable_bytes, 10_000)[0][1])

# %% [markdown]
# Adds do not wait for the flush: a full memtable is set aside, and a new one takes them.
#
# ## 7 · "Not here" and "cannot read" are different answers
#
# A slot with 0, no index at all, and a location that points to the wrong bytes: a client must be able to tell these three cases apart. Only the first two mean that the entry does not exist here.

# %%
from labkit.system.model.errors import NoEntryException, NoLedgerException, StorageDamagedException


def ask(ledger_id, entry_id):
    try:
        bookie.store.read_entry(ledger_id, entry_id)
    except (NoEntryException, NoLedgerException, StorageDamagedException) as error:
        print(f"{type(error).__name__}: {error}")


# %%
ask(7, 10_000)  # a slot that was never written
ask(6, 0)  # a ledger without an index
log.write(offset, bytes(8))  # damage entry 1 of ledger 7 in the entry log
bookie.restart()  # its read-ahead buffer is lost with its memory
ask(7, 1)

# %% [markdown]
# If the bookie answered the last read with "no such entry", a client that recovers the ledger would believe that the ledger ends before entry 1, and would cut off acknowledged entries. BookKeeper had this defect: issue 2908 of its tracker.
#
# ## In the real system
#
# | here | in BookKeeper |
# | --- | --- |
# | `system/storage/memtable.py` | `EntryMemTable`; full at `skipListSizeLimit`, 64 MiB |
# | `system/storage/entry_log.py` | `DefaultEntryLogger`; a new file at `logSizeLimit`, 1 GiB; a file for each ledger instead with `entryLogPerLedgerEnabled` |
# | `system/storage/index/ledger_index.py` | `LedgerCacheImpl`, `IndexPersistenceMgr`; `pageSize` 8192, `pageLimit`, `openFileLimit` |
# | all together | `SortedLedgerStorage`, the default of BookKeeper itself. Pulsar sets `DbLedgerStorage`: the same entry logs, but the index in RocksDB |
#
# BookKeeper writes the index *before* it syncs the entry log, so after a crash an index may point at nothing until replay repairs it. labkit syncs the entry log first.
#
# ## Questions
#
# <details><summary>Entry 100,000 of a ledger: where is its location, with pages of 8192 bytes?</summary>At byte 1024 + 800,000 = 801,024 of the index file: page 97 (800,000 // 8192), byte 5376 of that page.</details>
# <details><summary>Why can the location 0 mean "not here"?</summary>Log 0, offset 0 is where the header of the first log lies; no entry can begin before byte 1028.</details>
# <details><summary>A client writes only entry 5,000,000 of a ledger to this bookie. How long is the index file?</summary>Its location is at byte 1024 + 40,000,000, so the file seems 40 MB long. The file system stores only the pages that were written: the rest is a hole, which reads as zeros, "not here".</details>
# <details><summary>Inside one flush a ledger lies in one piece. And over several flushes?</summary>Every flush writes a piece of each ledger. A memtable of 64 MiB makes the pieces long enough for mostly sequential reads.</details>
# <details><summary>A ledger is deleted. When is its space in the entry log freed?</summary>When every other ledger in that file is gone too, or when compaction has copied the rest elsewhere: lesson 10.</details>
#
# **Next:** [04 LastLogMark](04-last-log-mark.ipynb): the power fails between journal and entry log. From where must the journal be read again?
