"""A scenario, which is a single value that contains everything on which a run depends.

    scenario             cluster, workload, faults, seed, decisions
    faults               the faults that can strike a node, a disk, a link or the metadata store
    scenario_validation  checks that names refer to existing nodes that the faults can affect
    rerun_with_fault     adds a fault to a run, so that everything before the fault is repeated

Start with `scenario` and `faults`.
"""
