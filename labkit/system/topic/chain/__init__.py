"""A partition's chain of ledgers: reads it from the metadata store, and changes it there.

    chain         the chain as a value: its ledgers, the last position, whether it is terminated
    chain_store   stores it by compare-and-set, and makes and deletes ledgers
    chain_reader  reads entries along it
    acknowledged  what a cursor has acknowledged: ranges and parts of batches
    formats       Pulsar's own formats of chains and cursors
    guarded_node  a node that only one owner may change
    retention     when a ledger is full, and which ones may be deleted
    upkeep        repeats what is due from time to time

Nothing here appends an entry.  Read `chain` and `chain_store` first.
"""
