"""Three small programs that use labkit's client, for lesson 15.

    edit_log        a write-ahead log shared by two name nodes, one of which is active
    offset_store    stores the latest offset of each consumer group
    snapshot_store  stores objects in chunks, found by name
    ledger_list     used by the first two: their list of ledgers, in a znode
    stories         runs the programs in the simulated world, with faults

Each program uses only the client's API: `create_ledger`, `add`, `open_ledger`, `delete_ledger`, and
the metadata store. None of them depends on the simulation, so each would run on a live cluster.

All three have the structure that everything built on BookKeeper has, including a topic. Entries are
appended to a ledger, a znode says which ledgers are current, the znode is changed by
compare-and-set, and a ledger is taken over only by recovery, which fences its writer.

Read in this order: `ledger_list`, `edit_log`, `offset_store`, `snapshot_store`, `stories`.
"""
