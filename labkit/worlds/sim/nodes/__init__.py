"""The nodes of a simulated world: the real servers over simulated machines.

    nodes           what every node can do: start, crash, pause; and a client's node
    bookie_node     a bookie, whose disks outlive its processes
    broker_node     a broker
    environment     what a node can reach of its world
    faulty_world    what a fault can reach of it
    ledger_numbers  a scenario numbers its ledgers; here they get their ids
    results         what the calls of the workload returned, for the checks

Read `nodes` and `bookie_node` first.
"""
