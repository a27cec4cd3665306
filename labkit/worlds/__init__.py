"""The two worlds in which the system runs.  Each implements the interfaces (ports) that it calls.

    live/  real files, TCP connections, processes and a ZooKeeper
    sim/   virtual time, simulated disks and networks, and the faults that can hit them

Both run the same code of `labkit.system`, and neither imports the other.  `tests/worlds/both`
checks both against one contract.

Read `live/processes/cluster.py` and `sim/run.py` first.
"""
