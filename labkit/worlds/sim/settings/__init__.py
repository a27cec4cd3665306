"""The parts of a scenario, as immutable values.

    value_rules      the valid values of each field, and the error messages for invalid ones
    scenario_values  values that can be written as Python and as JSON
    cluster          the servers and their settings
    triggers         when a step or a fault starts: at a time, or on an event
    bookie_script    scripts for a single bookie, for the crash map

Start with `cluster` and `triggers`.
"""
