"""Chooses the bookies that store a ledger.

    placement       chooses an ensemble, and replacements for failed bookies
    rackaware       does the same, but spreads the write sets over racks
    bookie_watcher  finds the writable bookies, and avoids those that failed recently

Read `placement` first.
"""
