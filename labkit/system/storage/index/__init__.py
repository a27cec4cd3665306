"""The ledgers of a bookie and their indexes, which map entries to locations in the entry logs.

ledger_index       the index file of one ledger
changed_locations  locations that have not been written to the index file yet
ledger_descriptor  a ledger as requests see it: master key, fence, explicit LAC, and its index
ledger_cache       all ledgers of a bookie, and which of their index files are open

Memory: at most `page_limit` pages of locations are not yet written. A ledger that was used once
keeps its descriptor and up to 512 bytes of locations that were read, without a limit on the number
of such ledgers. At most `open_file_limit` index files are open.
"""
