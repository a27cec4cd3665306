"""Runs of one bookie.

    one_bookie     a bookie on a simulated disk, which lessons start and stop
    bookie_files   the bytes of its files, and the numbers that lessons derive from them
    flush_runs     when bookies flush without being told to, and what they replay
    ledger_race, garbage_runs   lesson 10: ledgers, logs and garbage of one bookie

Read `one_bookie` first.
"""
