"""The simulated world: machines that stop at any moment, at no cost and always in the same way.

    disk.py        a disk in memory that forgets at a crash what was not synced
    script.py      what a bookie is told to do, as a value, and the promises that it makes
    crash.py       the script stopped at every disk operation: the crash map
    files.py       what a crash left on the disks, in words and bytes
    defects.py     well-known mistakes of a storage, each put into the real code by its name

The code under test is the real one: `labkit.storage` runs here over `SimDisk` as it runs on a
bookie over real files.  Nothing here reads a clock, and lots are drawn only from a seed.

Read in this order: `disk`, `script`, `crash`, `files`, `defects`.
"""
