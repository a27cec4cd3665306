"""Dispatch: decides which consumer of a subscription gets which entry, and when.

    consumer        one consumer, with its permits and unacknowledged entries
    entry           a stored entry with its decoded metadata
    dispatcher      base class: reads entries while a consumer can receive more
    single_active   one consumer gets everything in order: the only one (Exclusive), or the first
                    by priority and name (Failover)
    multiple        several consumers share the entries (Shared, Key_Shared)
        shared      round-robin
        key_shared  by hash range of the key
        waiting     entries to redeliver, and entries that no consumer could receive yet
        hashes      hashes keys, and tracks which consumer holds the entries of a group

Invariants: A consumer that has no permits, or whose client is not reading, receives nothing. In
`multiple`, such a consumer does not block the others, and an entry is pending for at most one
consumer. Acknowledged entries are never sent, except that they may be redelivered after a broker
crash, because cursors are stored with a delay. Unacknowledged entries are redelivered when their
consumer leaves, and no entry is ever lost.

While a dispatcher waits for a read, consumers may join, leave, acknowledge or request redelivery.
So the dispatcher chooses the consumer for an entry only after the read.

Shared and Key_Shared subscriptions count redeliveries, because clients need the counts for their
dead letter policies. Only redeliveries requested by a client are counted; a redelivery caused by a
departing consumer is not. The counts are kept in memory until the last consumer leaves.
"""
