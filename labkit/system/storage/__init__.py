"""One bookie's disk: everything that an acknowledged entry passes through.

    add_entry      memtable first, then the journal's buffer; nothing is durable yet
    journal        the sync of the group that holds the record makes it durable; now it may be
                   acknowledged
    checkpoint     mark := how far the journal is synced
                   -> memtable, in (ledger, entry) order, into the entry log -> sync
                   -> index pages of the ledgers touched -> sync
                   -> LastLogMark := mark, persisted -> journals wholly before it may go
    read           memtable, else index -> entry log; a batch takes entries that lie in a row as one
                   piece
    open           LastLogMark -> every later journal record goes into the memtable again

Memtable first is what makes the mark true: a record that is synced at the moment of the mark was
in the memtable before, so the flush that follows writes it.

Everything here is plain and synchronous and runs over a small `Disk` port.  Formats are those of
BookKeeper 4.17 in its default set-up (SortedLedgerStorage, journal version 6), byte for byte.

Where labkit differs from BookKeeper, files staying readable both ways:
  - the entry log is synced before the index is written, so an index never points at bytes that
    a crash can take away (BookKeeper: index first, healed by replay);
  - every memtable flush is a checkpoint and moves LastLogMark (BookKeeper: when a log fills);
  - lastMark and a ledger's first index file are written aside and renamed, so they are whole or
    not there;
  - replay leaves an entry alone that entry log and index have (BookKeeper writes it again);
  - a padding record or a master key that a crash tore at a sector's edge ends the journal or
    creates nothing (BookKeeper refuses to start, or keeps a wrong key);
  - fencing a ledger that this bookie never stored journals its master key too, so the fence
    survives a restart (BookKeeper drops it at replay);
  - a request's master key is compared with the stored one also after a restart;
  - a start that finds no space for what it replays keeps it in memory until a checkpoint does
    (BookKeeper does not start);
  - entry ids end at 2**40 - 1 (BookKeeper takes larger ones).  Entry 2**40 - 1 alone makes an index
    of 8 TiB, of which only the pages that were written take space;
  - a journal record that no writer leaves and that would spoil the index stops the start, with
    file and offset (BookKeeper takes it, and cannot read the index's header later).

Read in this order: `disk`, `config`, `store`, `memtable`, `flush_events`, `journal`,
`journal_scan`, `replay`, `log_mark`, `entry_log`, `last_log_id`, `log_reader`, `index/`,
`entry_batch`, `last_add_confirmed`, `collected_ledgers`, `garbage`, `directories`; `xray` and
`entry_locations` look at the bytes.
"""
