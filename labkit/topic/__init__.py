"""Topics: messages become entries of a chain of ledgers, and every message gets its MessageID.

    producer        message -> batch, until it is full or due -> one entry (or a message alone)
    managed_ledger  entry -> the partition's current ledger; a new one when that is full or old
    message_id      ledger id : entry id : partition : batch index
    consumer        ledgers of the chain in order -> entries -> messages, never beyond what is
                    confirmed

A partition is a topic of its own, `<topic>-partition-<i>`, with one open ledger at a time; the
ledgers before it are closed and never change.  The chain is kept in the metadata store, changed by
compare-and-set, in Pulsar's own format; so is what an entry holds.

Invariants: ids of a partition grow in the order in which its messages are stored; a message is
acknowledged to its producer only when its entry is confirmed.  Who opens a partition takes it from
whoever owned it: the last ledger is recovered, and the chain's version stops the other's next one.

Not here yet: subscriptions and cursors, trimming by retention, deduplication.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`, `pulsar-client/.../BatchMessageContainer`.

Read in this order: `topic`, `producer`, `messages`, `managed_ledger`, `consumer`, `names`.
"""
