"""The verbs of the shell that query or repair a running cluster.

    state      queries the metadata store and the bookies
    repair     recovers and decommissions lost bookies
    records    the results, and their text

Read `state` first.
"""
