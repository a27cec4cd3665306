"""The storage of one bookie: the files on its disks, and the code that writes and reads them.

    add         the entry is put into the memtable, then its record is appended to the journal's
                buffer; nothing is durable yet
    journal     the record is durable once its group is synced, and then the add may be acknowledged
                (an add with deferred sync is acknowledged as soon as its record is written)
    checkpoint  determine the mark: the position up to which the journal is synced
                -> write the memtable to the entry log, in (ledger, entry) order, and sync it
                -> write the locations to the ledgers' indexes, and sync them
                -> persist LastLogMark := the mark
                -> delete the journals that end before the mark, except a few backups
    read        look in the memtable, or use the index to find the entry in the entry log; a batch
                read returns consecutive entries of the log as one slice
    start       replay: put the journal's entries from LastLogMark on back into the memtable,
                except those that the entry log and the index already contain

An entry is put into the memtable before its record is appended to the journal. So if a record was
synced before the mark is determined, the subsequent flush writes the record's entry.

All code is synchronous and accesses files through the small `Disk` interface. The file formats are
exactly those of BookKeeper 4.17 in its default configuration (SortedLedgerStorage, journal version
6).

Terms:
    entry log        the files that store the entries of all ledgers; not the journal
    location         the position of an entry in the entry logs: log id and offset
    index            a ledger's file that maps entry ids to locations
    mark, LogMark    a position in the journal; replay starts from LastLogMark
    flush            writing the memtable to the entry log and the indexes
    checkpoint       a flush that also advances LastLogMark
    master key       a digest of the ledger's password, sent with every add
    LAC              LastAddConfirmed: all entries up to this one have been acknowledged
    explicit LAC     an LAC that a writer sends without an entry
    fence            a flag that makes a bookie reject all adds to a ledger, except recovery adds
    recovery add     an add by a client that recovers the ledger of a failed writer

The modules of `labkit.system.bookie` call this package. A live bookie calls it from an event loop,
from one thread per journal, and from one thread for flushes and garbage collection. The simulated
world has a single thread.
    event loop       `protocol_v2`, `protocol_v3`: add, read, fence, explicit LAC
                     `checkpoints`: `begin_checkpoint`, `end_checkpoint`; when to run one
                     `disk_monitor`: `set_full_directories`; makes a bookie read-only
                     `garbage_collection`: `ledger_ids`, `take_settled`, `drop_entries`
    journal thread   `commit` (GroupCommit): `Journal.write_and_sync`, or `write_unsynced` and
                     `sync`; the event loop then sends the responses that waited for them
    flush thread     `LedgerStore.flush`, `LedgerStore.entry_ids`; `GarbageCollector.collect`,
                     `compact` and `remove_log`

Read the modules in this order: `disk`, `config`, `log_mark`, `journal`, `journal_scan`, `memtable`,
`entry_log`, `last_log_id`, `log_reader`, `index/`, `store`, `other_storages`, `replay`,
`entry_batch`, `last_add_confirmed`, `collected_ledgers`, and `garbage`. `flush_events` reports
events to the trace.

Differences from BookKeeper (labkit and BookKeeper can read each other's files):
  - The entry log is synced before the index is written, so an index never points to bytes that a
    crash has lost. (BookKeeper writes the index first, and relies on replay to repair it after a
    crash.)
  - Every memtable flush is a checkpoint and advances LastLogMark. (BookKeeper advances it only when
    an entry log is full.)
  - lastMark and a new ledger's index are written under a temporary name and then renamed, so they
    are either complete or absent.
  - Replay skips an entry if the entry log and the index already contain it. (BookKeeper writes the
    entry again.)
  - If a crash tore padding at a sector boundary, replay treats this as the end of the journal.
    (BookKeeper refuses to start.) If a crash tore a master key, no ledger is created with this key.
    (BookKeeper keeps the wrong key.)
  - Fencing a ledger that this bookie never stored also writes the master key to the journal, so the
    fence survives a restart. (BookKeeper drops it during replay.)
  - The master key of a request is compared with the stored key even after a restart.
  - If the disk is full when the bookie starts, the replayed entries stay in memory until a
    checkpoint succeeds. (BookKeeper refuses to start.)
  - An index file stays in its directory even if the directory becomes full. (BookKeeper moves the
    file to another directory.) A checkpoint therefore fails if any ledger directory has no space
    left at all, and is retried until there is space.
  - The largest entry id is 2**40 - 1. (BookKeeper accepts larger ids.)
  - If a journal contains a record that no writer produces and that would corrupt the index, the
    bookie refuses to start, and the error message contains the file name and the offset.
    (BookKeeper accepts the record, but cannot read the index header later.)
  - If any journal file that replay needs is missing, the bookie refuses to start. (BookKeeper
    notices only if the file named by LastLogMark is missing.)
"""
