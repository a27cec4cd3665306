"""Topics: messages become entries of a chain of ledgers, every message gets its MessageID, and each
subscription remembers what it has acknowledged.

    producer        message -> batch, until it is full or due -> one entry (or a message alone)
    managed_ledger  entry -> the partition's current ledger; a new one when that is full or old
    message_id      ledger id : entry id : partition : batch index
    consumer        ledgers of the chain in order -> entries -> messages, never beyond what is
                    confirmed
    cursor          acknowledgements -> ranges -> one entry with all of them, in the cursor's ledger
    compression     payloads that clients compressed
    retention       ledgers that every cursor has left behind -> out of the chain -> deleted

A partition is itself a topic, `<topic>-partition-<i>`, with one open ledger at a time; the
ledgers before it are closed and never change.  The chain is kept in the metadata store, changed by
compare-and-set, in Pulsar's own format; so are cursors, and what an entry holds.

An owner opens a partition in this order: the last ledger is recovered, which stops the previous
owner's writer; the chain is stored, which stops its next ledger; a new ledger begins; each cursor
is recovered from its ledger's last entry, and its node is written, which stops its next cursor
ledger.  The stopped owner notices at its next write, and ends; the topic must be opened again.

Invariants:

- ids of a partition grow in the order in which its messages are stored
- a message is acknowledged to its producer only when its entry is confirmed; once one entry has
  failed, all later ones do
- a ledger joins the chain before its first entry, and leaves it before it is deleted; the current
  one never leaves, and none that the stored position of a durable cursor still needs
- all that a cursor has as acknowledged was acknowledged: after a crash messages may come again, and
  none is skipped.  (L, -1) acknowledges nothing of ledger L

Differences from Pulsar: an owner that closes in good order stores the chain once more, with the end
of its last ledger; one that opens stores it before it makes the new ledger, and writes each
cursor's node; a cursor that has moved is stored after a second, where Pulsar waits for the next
acknowledgement or a minute; after a ledger that took no entry the next one waits.  Offloaded
ledgers are not supported here; what a chain says of them is kept.  A crash between two steps may
leave a ledger that no chain names: lost space, as there.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`, `ManagedCursorImpl.java`,
`pulsar-client/.../BatchMessageContainer`.

The other modules: `names`, `config` and `messages`; `append_queue` and `backoff`, which the managed
ledger uses; `topic` and `partitions`; `ownership` and `deletion`.  The packages: `chain/` keeps the
chain of ledgers, `cursors/` stores what is acknowledged, `producing/` stores new messages.

Read `managed_ledger` and `chain/chain.py` first.
"""
