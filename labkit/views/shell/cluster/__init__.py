"""The verbs of the shell that ask a running cluster.

    state      what the metadata store and the bookies say, as records
    repair     recovers and decommissions lost bookies
    records    the answers as values, and their text

Read `state` first.
"""
