"""The simulated world: machines that stop at any moment, at no cost and always in the same way.

    disk.py        a disk in memory that forgets at a crash what was not synced
    crash.py       a script of storage operations, stopped at every disk operation: the crash map
    defects.py     well-known mistakes of a storage, each put into the real code by its name

The code under test is the real one: `labkit.storage` runs here over `SimDisk` as it runs on a
bookie over real files.  Nothing here reads a clock, and lots are drawn only from a seed.

Read in this order: `disk`, `crash`, `defects`.
"""
