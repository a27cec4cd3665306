"""The parts of a scenario, as immutable values.

    value_rules      the valid values of each field, and the error messages for invalid values
    scenario_values  values that can be written as Python code and as JSON
    cluster          the servers and their settings
    triggers         the moment when a step or a fault starts: a time, or an event
    bookie_script    scripts for a single bookie, for the crash map

Start with `cluster` and `triggers`.
"""
