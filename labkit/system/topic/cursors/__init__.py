"""Cursors: the acknowledgements of each subscription, and their storage.

    cursor           one cursor, which records acknowledgements and stores them at intervals
    acknowledged     the acknowledgements of a cursor: ranges and partial batches
    cursor_store     a cursor's node in the metadata store and its ledger
    formats          Pulsar's own formats for a cursor's node and for the entries of its ledger
    managed_cursors  all cursors of a topic partition

Read `cursor` first.
"""
