"""The ledgers of a bookie and their indexes, which map entries to locations in the entry logs.

ledger_index       the index file of one ledger
changed_locations  locations that have not been written to the index file yet
ledger_descriptor  the state of a ledger that requests use: master key, fence, explicit LAC, index
ledger_cache       keeps all ledgers of a bookie, and limits the number of open index files

Memory: at most `page_limit` pages have unwritten locations. Every ledger that has been used keeps
its descriptor and up to 512 bytes of cached locations in memory, and the number of such ledgers is
unlimited. At most `open_file_limit` index files are open.
"""
