"""Chooses the bookies that store a ledger.

    placement       chooses an ensemble, and replacements for bookies that fail
    rackaware       the same, spread over racks
    bookie_watcher  which bookies can be written to, and which were slow or faulty

Read `placement` first.
"""
