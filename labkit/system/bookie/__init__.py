"""A bookie: a storage node that stores and returns entries, and leaves decisions to its clients.

    receive  decode all frames that arrived together into requests
    add      check the master key and the fence -> memtable and journal -> wait for the sync
    read     if the request has the flag FENCE, fence the ledger first, and wait for the sync even
             if the read fails; look in the memtable, or else in the index and the entry log ->
             respond
    sync     write and sync all records that arrived in the meantime, then send all responses, with
             one write per connection (group commit)

A bookie's port accepts two protocols, and the first frame of a connection determines which one the
connection uses. Version 2, which busy clusters use, has only adds and reads. Version 3 has more
operations on the same store:

    deferred add   the response is sent after the write, before the sync
    force          the response is sent after a sync
    long poll      a read that waits until LastAddConfirmed exceeds the reader's value
    explicit LAC   a LastAddConfirmed that is written to the journal without an entry
    queries        which entries of a ledger the bookie has, and how much disk space is free

Requests and responses are handled in batches, without a task or future per entry. Adds of version 2
are processed on arrival. All other requests share a limited amount of time in each iteration of the
event loop; if there are too many of them, the clients take turns. A bookie stops reading from a
client that does not read its responses.

Invariants:
  - No add, fencing read or explicit LAC is acknowledged before its journal record is durable,
    except adds with deferred sync.
  - A bookie responds "no such ledger" or "no such entry" only if that is certain. It reports every
    other failure to read as an I/O error.

A bookie notices during garbage collection that a ledger has been deleted. From then on, it rejects
every add to the ledger, even during recovery, as if the ledger were fenced. It responds "no such
ledger" to reads, fences and explicit LACs. As in BookKeeper, the writer of a deleted ledger may
still receive acknowledgements
  - before the next collection (`gcWaitTime`), if the ledger is not fenced;
  - from a bookie that had no entry of the ledger when the ledger was deleted, until the bookie's
    next collection;
  - from a bookie that has restarted since it collected the ledger, unless its journal still
    contains the fence;
  - from any bookie, once there has been no add, fence or explicit LAC for the ledger for seven
    days.

A full ledger directory is not treated as a failed disk. If a checkpoint runs out of space, the
bookie becomes read-only, and retries the checkpoint until it succeeds. If a checkpoint fails for
any other reason, or the journal cannot be written (even for lack of space), the contents of the
failed disk are unknown, so the process ends. Compactions need disk space before they free any. So
they are suspended while the ledger directories are full or almost full, as in BookKeeper.

Differences from BookKeeper:
  - A bookie remembers all ledgers that it has collected. BookKeeper remembers only ledgers that the
    same process has written, fenced or replayed.
  - A bookie that deletes its over-replicated copies of a ledger keeps the master key and the fence
    until the ledger is deleted. BookKeeper discards both, and rejects adds only for seven days or
    until the bookie is restarted.
  - Garbage is collected only while the metadata store contains the cluster named in the bookie's
    cookie. BookKeeper treats a store that has lost its data as an empty cluster.
  - One thread serves all clients, which take turns; BookKeeper has thread pools with bounded queues
    (`maxPendingReadRequestsPerThread`). If there are too many long polls, some receive a response
    early. A batch read returns at most 1,000 entries.
  - A bookie keeps appending to an entry log in an almost full directory, and switches to another
    directory only when that one is full.
  - A read-only bookie accepts high-priority adds until its memtable or its journal is full
    (`minUsableSizeForHighPriorityWrites` is ignored).
  - A bookie that has no disk space for the replayed entries starts as read-only, serves reads from
    memory, and flushes the entries as soon as there is space. (BookKeeper refuses to start.)
  - If a version 3 connection receives an invalid frame, the bookie closes the connection;
    BookKeeper would try to decode the frame as version 2.
  - TLS is not supported, and authentication is reported as disabled.
  - The response that lists a ledger's entries encodes a striped ledger as a single group with
    a repeat interval.
  - The response to a long poll does not contain the time at which LastAddConfirmed advanced
    (`lacUpdateTimestamp`).

Read the modules in this order: `node`, `channel`, `turns`, `protocol_v2`, `error_codes`,
`batch_read`, `commit`, `checkpoints`, `periodic_check`, `disk_monitor`, `garbage_collection`; then
`protocol_v3` and `long_poll`.
"""
