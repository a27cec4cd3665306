"""A scenario: everything that a run depends on, as one value.

    scenario             cluster, workload, faults, seed, decisions
    faults               the faults, except those of the metadata server (`metadata_faults`)
    scenario_validation  checks that all names refer to existing nodes and that faults fit them
    rerun_with_fault     adds a fault to a run, so that everything before the fault is repeated

Start with `scenario` and `faults`.
"""
