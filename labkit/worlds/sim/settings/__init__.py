"""The parts of a scenario, as immutable values.

    value_rules      what a field may hold, and the sentence that refuses anything else
    scenario_values  values that are written as Python and as JSON
    cluster          the servers and their settings
    triggers         when something is done: at a time, or at an event
    bookie_script    the steps of a bookie alone, for the crash map

Read `cluster` and `triggers` first.
"""
