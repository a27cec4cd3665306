"""Three small programs that use labkit's client, for lesson 15.

    edit_log        a write-ahead log shared by two name nodes, one of which is active
    offset_store    stores the latest offset of each consumer group
    snapshot_store  stores objects in chunks and finds them by name
    ledger_list     stores the list of ledgers of the first two programs in a znode
    stories         runs the programs in the simulated world, with faults

Each program uses only the client's API (`create_ledger`, `add`, `open_ledger` and `delete_ledger`)
and the metadata store. No program depends on the simulation, so each of them would run on a live
cluster.

All three programs have the same structure as everything else that is built on BookKeeper, including
topics. Entries are appended to a ledger, a znode lists the current ledgers, the znode is changed by
compare-and-set, and a ledger is taken over only by recovery, which fences the ledger's writer.

Read in this order: `ledger_list`, `edit_log`, `offset_store`, `snapshot_store`, `stories`.
"""
