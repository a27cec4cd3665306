"""Topics: messages stored as entries in a chain of ledgers, and the acknowledgements of each
subscription.

Glossary:

    chain           the ledgers of one topic partition, oldest first; Pulsar's managed ledger
    position        (ledger id, entry id); (L, -1) is the position before ledger L's first entry
    message id      ledger id, entry id, partition and batch index (`model/message_id`)
    cursor          the acknowledgements of one subscription
    mark-delete     the position up to which a cursor has acknowledged every entry
    owner           the process that has a partition open; only the owner can write to it
    fenced          rejected, because another owner has taken over
    rollover        closing the current ledger and creating the next one
    append          hand entries to the managed ledger, which adds them to its queue
    push            hand entries from the queue to the writer of the current ledger

The path of a message:

    producer        adds messages to a batch until it is full or due; a batch is one entry
    managed_ledger  appends entries to the partition's current ledger, and rolls over
    consumer        reads the chain's confirmed entries in order, and decodes their messages
    cursor          collects acknowledged ranges, and stores all of them in the cursor's own ledger,
                    as one entry, or as up to four entries if there are very many ranges
    retention       chooses the ledgers to trim from those that every cursor has passed

A partition is itself a topic, `<topic>-partition-<i>`, with one open ledger at a time. All earlier
ledgers are closed and never change. The chain and the cursors are stored in the metadata store in
Pulsar's own format, and updated by compare-and-set. Entries have Pulsar's format, too.

An owner opens a partition with `ManagedLedger.open`, which fences the previous owner by recovering
the last ledger and by writing to the chain's node and to each cursor's node. The previous owner
notices this on its next write, and stops.

Invariants:

- the message ids of a partition increase in the order in which its messages are stored
- a producer gets a receipt only after the message's entry has been confirmed; once an entry has
  failed, all later ones fail as well
- a ledger is added to the chain before its first entry is written, and is removed from the chain
  before it is deleted
- the current ledger is never removed, nor is any ledger that a durable cursor would still need
  after restarting from its stored position
- a cursor never stores an unacknowledged entry as acknowledged; after a crash, messages may be
  redelivered, but none are skipped

What a caller should do after an error:

    call again          `MetadataUnavailableError`, unless it has ended the owner: the next call
                        first finds out whether the change was carried out
    reopen the topic    any error that has ended the owner, which every later call raises again:
                        `ManagedLedgerFencedError` if another owner has taken over,
                        `BKLedgerClosedException` after `close`, or the error that made a rollover
                        or a termination fail
    correct the call    `BKIncorrectParameterException`, `NodeTooLargeError`: nothing has changed
    give up             `ManagedLedgerTerminatedError`: the chain accepts no more entries;
                        `MarkedForDeletionError`: the topic can only be deleted;
                        `DamagedNodeError`: the bytes of the chain or a cursor cannot be decoded

Differences from Pulsar:

- An owner that closes cleanly stores the chain once more, with the end of its last ledger. An owner
  that opens a partition stores the chain before it creates the new ledger, and writes each cursor's
  node.
- A change to a cursor is stored immediately if the cursor was last stored more than a second ago,
  and otherwise as soon as a second has passed since then. Pulsar waits until the next
  acknowledgement arrives or a minute has passed.
- If a ledger has not accepted any entries, the owner pauses before it creates the next one.
- A cursor's node is created only if no other owner has changed the chain. Pulsar's owner does not
  check this.
- Offloaded ledgers are not supported, but their records in the chain are preserved.

As in Pulsar, a crash between two steps may leak a ledger that no chain refers to.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`, `ManagedCursorImpl.java`,
`pulsar-client/.../BatchMessageContainer`.

Read `managed_ledger` and `chain/ledger_chain` first. The managed ledger uses `append_queue`,
`backoff` and `maintenance`. The other modules are `names`, `config`, `messages`, `topic`,
`partitions`, `deletion`, and `compression`, which only Spark and the admin API use. The packages
are `chain/` (the chain of ledgers), `cursors/` (acknowledgements) and `producing/` (new messages).
"""
