"""The nodes of a simulated world: the real servers on simulated machines.

    nodes           the base class of all nodes (start, crash, pause), and the client node
    bookie_node     a bookie, whose disks survive its processes
    broker_node     a broker
    environment     the part of the world that is used by nodes
    faulty_world    the part of the world that is used by faults
    ledger_numbers  maps a scenario's ledger numbers to ledger ids
    results         records the results of the workload's calls for the checks

Start with `nodes` and `bookie_node`.
"""
