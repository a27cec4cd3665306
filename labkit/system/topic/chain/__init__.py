"""A partition's chain of ledgers, stored in the metadata store.

    ledger_chain  the chain in memory: its ledgers, and arithmetic on positions
    chain_store   stores the chain by compare-and-set, and creates and deletes ledgers
    ledgers       creates and deletes ledgers, with Pulsar's metadata
    chain_reader  reads entries across the ledgers of a chain
    formats       Pulsar's own format for a chain's node
    guarded_node  a node that only its current owner can change
    rollover      decides when a ledger is full
    retention     decides which ledgers to delete

Entries are appended elsewhere, by `managed_ledger`. Read `ledger_chain` and `chain_store` first.
"""
