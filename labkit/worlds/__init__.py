"""The two worlds in which the system runs: its ports, provided twice.

    live/  real files, TCP connections, processes and a ZooKeeper
    sim/   virtual time, simulated disks and networks, and every fault that a person can think of

Both run the same code of `labkit.system`, and neither imports the other.  `tests/worlds/both`
checks both against one contract.

Read `live/processes/cluster.py` and `sim/run.py` first.
"""
