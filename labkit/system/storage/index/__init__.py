"""The index: it says where in the entry logs each entry of a ledger is.

    ledger_index       the index file of one ledger
    changed_locations  locations that are not yet written to it
    ledger_cache       the open index files of a bookie

Read `ledger_index` first.
"""
