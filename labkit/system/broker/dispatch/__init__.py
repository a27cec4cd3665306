"""Dispatch: which consumer of a subscription gets which entry, and when.

    consumer        one consumer: permits, and what it has not acknowledged
    entry           the facts of a stored entry that dispatch needs
    dispatcher      the task that reads entries while a consumer can take them
    single_active   one consumer gets all, in order: the only one there may be (Exclusive), or the
                    first by priority and name (Failover)
    multiple        several share, each entry goes to one of them, and again if necessary
        shared          in turn
        key_shared      by key: ranges of hashes
        waiting     entries that were given back, or that no consumer could take yet
        hashes          a key's hash, and the consumer that holds entries of a hash
        delayed         entries that are not due yet

The choices (Exclusive, Failover, Shared, KeyShared) know neither the cursor nor the
ledger; the dispatchers know no protocol.

Invariants: a consumer without permits, or whose client does not read, gets nothing and stops no
other; an entry is with at most one consumer at a time; an entry that the cursor has as acknowledged
is never sent; whatever was sent and is not acknowledged is sent again when its consumer leaves.
Entries that were acknowledged may come again after a broker's crash, since cursors are stored with
a delay; others are never lost.

A dispatcher reads, and consumers join, leave, acknowledge and give back during the read.  So who
gets an entry is decided after the read, from what is true then.  The cost of a message does not
depend on how many entries wait.

Redelivery counts are kept in memory, for Shared and Key_Shared only, and count what clients ask
for: a consumer that just leaves does not count.  They drive the client's dead letter policy.
"""
