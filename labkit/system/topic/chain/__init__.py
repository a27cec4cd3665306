"""A partition's chain of ledgers, stored in the metadata store.

    chain         the chain in memory: its ledgers, and arithmetic on positions
    chain_store   stores the chain by compare-and-set, and creates and deletes ledgers
    ledgers       creates and deletes ledgers, with Pulsar's metadata
    chain_reader  reads entries across the ledgers of a chain
    acknowledged  the acknowledgements of a cursor: ranges and partial batches
    formats       Pulsar's own formats of chains and cursors
    guarded_node  a node that only its current owner can change
    retention     decides when a ledger is full, and which ledgers to delete
    maintenance   runs maintenance on demand and at intervals

Entries are appended elsewhere, by `managed_ledger`. Read `chain` and `chain_store` first.
"""
