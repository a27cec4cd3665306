"""The two worlds in which labkit's system code can run.

    live/  real files, TCP connections, processes and a ZooKeeper server
    sim/   virtual time, simulated disks and networks, and injected faults

Each world implements the interfaces (ports) that `labkit.system` calls. Both worlds run the same
system code, and neither imports the other. `tests/worlds/both` checks that both worlds fulfil the
same contract.

Read `live/processes/cluster.py` and `sim/run.py` first.
"""
