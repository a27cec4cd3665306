"""One storage node: it takes entries and gives them back, and decides nothing else.

    frames of one receive -> requests
    add    master key right? ledger not fenced? -> memtable, then journal -> wait for the sync
    read   with the flag FENCE: fence first and wait for the sync, whatever the read says
           -> memtable, else index -> entry log -> answer
    sync   one write and one sync for all that came meanwhile; then all their answers, one write
           per connection (group commit)

Two protocols on one port: a connection's first frame decides which.  Version 2 is adds and reads
and what a busy cluster speaks.  Version 3 has more, over the same store:

    deferred add   answered after the write, before the sync; force: a sync, then the answer
    long poll      a read that waits until more is confirmed than its reader knows
    explicit LAC   a LastAddConfirmed announced without an entry; journaled
    questions      which entries of a ledger are here, and how much space there is

No entry gets its own task or future: requests and answers go through in batches.

Adds are done as they come.  All other requests have a bounded part of each turn of the event loop,
and when clients ask for more than that, each gets a share in turn.  A client that does not take its
answers is asked for nothing more, so little is kept in memory for it.

Invariants: no add (deferred-sync adds excepted), fencing read or explicit LAC is answered before
its journal record is durable.  "No such ledger" and "no such entry" are answered only when they are
certain; every other failure is an I/O error.

A ledger that was deleted stays deleted.  A bookie learns of it when it collects garbage; from then
on it answers every add to the ledger, recovery's too, as one to a fenced ledger, and everything
else with "no such ledger".  As in BookKeeper that is as much as a bookie can do, so a writer whose
ledger was deleted may still get acknowledgements
  - before the next collection (`gcWaitTime`), if the ledger is not fenced;
  - by a bookie that had stored nothing of the ledger when it was deleted, until it is collected;
  - by a bookie that has restarted since it collected the ledger, unless its journal still has the
    fence, or seven days after the last request for the ledger.

A full disk is not a failed one.  A checkpoint that finds no space is tried again, and the bookie is
read-only meanwhile; any other failure of a checkpoint, and every failure of the journal, ends the
process, since what such a disk holds is unknown.  Compactions write before they free, so they
rest while the ledger directories are (almost) full, as in BookKeeper.

Where labkit differs from BookKeeper:
  - a bookie remembers all ledgers that it has collected, BookKeeper only those that its process has
    written, fenced or replayed;
  - a bookie that gives up its copies of a ledger keeps key and fence until the ledger is deleted
    (BookKeeper forgets them, and refuses adds for seven days of the process's life);
  - garbage is collected only while the metadata store has the cluster that the bookie's cookie
    names; BookKeeper takes a store that has lost its data for an empty one;
  - one thread serves all clients in turn, where BookKeeper has pools of threads whose queues are
    bounded (`maxPendingReadRequestsPerThread`); of too many long polls some are answered early, and
    a batch read gives at most 1,000 entries;
  - a log on an almost full directory is written on; only a full one is left for another;
  - a read-only bookie takes adds of high priority as long as its journal does
    (`minUsableSizeForHighPriorityWrites` is not looked at);
  - a bookie that starts without space for what it replays serves reads from memory, read-only, and
    flushes when there is room (BookKeeper does not start);
  - an invalid frame ends a connection of version 3, which BookKeeper would go on to read as version
    2; there is no TLS, and authentication is answered as switched off;
  - the list of a ledger's entries uses the format's periods, so a stripe is one group; a long poll
    does not learn when LastAddConfirmed moved (`lacUpdateTimestamp`).

Read in this order: `node`, `channel`, `turns`, `protocol_v2`, `refusals`, `batch_read`, `commit`,
`checkpoints`, `disk_monitor`, `garbage_collection`; then `protocol_v3`, `long_poll`.
"""
