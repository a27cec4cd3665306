"""Uses: three small programs on labkit's client, for lesson 15.

    edit_log        a write-ahead log with two name nodes, one of them active
    offset_store    the newest offset of each consumer group
    snapshot_store  objects in chunks, found by name
    ledger_list     what the first two share: their ledgers, in a node that compare-and-set guards
    stories         the programs in the simulated world, with faults: runs for lesson and exercises

Each program uses only what a client offers: `create_ledger`, `add`, `open_ledger`, `delete_ledger`,
and the metadata store.  None knows of the simulated world, so each would run on a live cluster.

What the three have in common is the shape of everything on BookKeeper, a topic too: entries go to a
ledger; a node in the metadata store says which ledgers count; the node is changed by
compare-and-set; and a ledger is taken over only by recovery, which fences its writer.

Read in this order: `ledger_list`, `edit_log`, `offset_store`, `snapshot_store`, `stories`.
"""
