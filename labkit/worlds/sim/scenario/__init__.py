"""A scenario: everything that a run depends on, as one value.

    scenario             cluster, workload, faults, seed, decisions
    faults               what can go wrong; `machine_faults` and `metadata_faults` have the rest
    scenario_validation  whether the names in its parts fit together
    rerun_with_fault     where in a run a fault can be put, so that the same run happens again

Read `scenario` and `faults` first.
"""
