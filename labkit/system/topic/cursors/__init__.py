"""Cursors: what each subscription has acknowledged, and where that is stored.

    cursor        one cursor: marks what is acknowledged, stores it when it is due
    cursor_store  its node and its ledger
    cursors       all cursors of a topic

Read `cursor` first.
"""
