"""Cursors: the acknowledgements of each subscription, and their storage.

    cursor        one cursor: records acknowledgements, and stores them at intervals
    cursor_store  a cursor's node in the metadata store and its ledger
    cursors       all cursors of a topic partition

Read `cursor` first.
"""
