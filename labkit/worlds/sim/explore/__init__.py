"""Searches for bugs in more scenarios than anyone could write by hand.

Scenarios are generated, run, checked by `labkit.system.check`, and shrunk:

    scenarios/            generates scenarios from a seed
    search                runs many scenarios in several processes, until a promise breaks
    replay_until_broken   runs one scenario until its promise breaks
    shrink                makes a scenario that breaks a promise as small as possible
    counterexamples/      the smallest known scenario that breaks the promise of each variant
    situations/           finds the situations that a run reached, and aims at rare ones
    progress              the progress of a search, as a single line
    code_version          identifies the code that a search ran

    found = search(range(5000), variant="ack after one bookie")
    print(shrink(found.first.scenario, found.first.promise))

A run that never ends has no trace, so `shrink` rejects scenarios that break `EveryRunEnds`.

`labkit search` runs this search from the command line. `labkit.views.spark.search` runs the search
on Spark and keeps a table of all runs. `tools/search` uses this table for searches that run for
hours.

    orders/   tries every order of a small scenario's messages instead of a sample

A search that finds nothing proves nothing, but `every_order` can prove that a small scenario breaks
no promise. Both the search and `every_order` rely on two properties of `labkit.worlds.sim`: every
run can be reproduced, and its random decisions are stored in a dictionary.

BookKeeper has nothing comparable: its tests inject single failures by hand, and its TLA+
specification is checked separately from its code.

Start with `search` and `shrink`.
"""
