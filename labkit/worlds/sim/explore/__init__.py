"""Exploration: looks for mistakes in more scenarios than a person would write by hand.

Scenarios are drawn, run, judged by `labkit.system.check`, and shrunk:

    scenarios/            draws scenarios from a seed
    search                runs many of them in several processes, until a promise breaks
    replay_until_broken   runs one scenario until its promise breaks
    shrink                makes a scenario that breaks a promise as small as possible
    counterexamples/      the smallest known scenario that breaks the promise of each variant
    progress              the progress of a search, in one line

    found = search(range(5000), variant="ack after one bookie")
    print(shrink(found.first.scenario, found.first.promise))

A finding of `EveryRunEnds` has no trace, so `shrink` refuses it.

`labkit search` is this search as a command; `tools/search` searches for hours.

    orders/   every order of a small scenario's messages, instead of a sample

A search that finds nothing proves nothing; `every_order` proves promises for small scenarios. Both
depend on the rule of `labkit.worlds.sim`: a run is a value, and its random decisions are a
dictionary.

BookKeeper has nothing like this: its tests inject single failures by hand, and its TLA+
specification is checked separately from its code.

Read `search` and `shrink` first.
"""
