"""The ledgers of a bookie and their indexes, which say where in the entry logs each entry is.

    ledger_descriptor  a ledger as requests see it: key, fence, explicit LAC, and its index
    ledger_index       the index file of one ledger
    changed_locations  locations that are not yet written to it
    ledger_cache       the ledgers of a bookie, and which of their index files are open

Read `ledger_index` first.
"""
