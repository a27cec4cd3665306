"""Exploration: looks for mistakes in more scenarios than a person would write by hand.

Scenarios are drawn, run, judged by `labkit.check`, and shrunk:

    lots.py             what is drawn from a seed, and from which choices
    storm.py            faults drawn from a seed, added to a scenario
    situations.py       faults that meet the steps to which they matter
    busy_disks.py       crashes that meet the work of the disks: flushes, full journals, compactions
    drawn.py            whole scenarios drawn from a seed
    drawn_topic.py      the same with brokers: topics change their owners under producers
    search.py           many scenarios in several processes, until a promise breaks
    trial.py            whether a promise breaks in a scenario: a run that ends when it does
    shrink.py           a scenario that breaks a promise, made as small as possible
    long_search.py      hours of seeds, with a state that survives a stop: `labkit search`
    counterexamples/    for each variant the smallest known scenario that breaks its promise
    progress.py         the progress of a search, in one line

    found = search(range(5000), variant="ack after one bookie")
    print(shrink(found.first.scenario, found.first.promise))

Or all orders of the messages of a small scenario, not a sample:

    fingerprint.py  the memory of a node, as one value
    learned.py      what each node does with each message: a table
    steered.py      a world that follows a given order, and notes what each node does
    mishaps.py      the crashes and losses with which all orders are tried again
    every_order.py  all states of the world, found by that table, and a judgement of each

A search that finds nothing proves nothing; `every_order` proves promises for small scenarios.  Both
rest on the rule of `labkit.sim`: a run is a value, and its random decisions are a dictionary.

BookKeeper has nothing like this: its tests inject single failures by hand, and its TLA+
specification is checked apart from its code.

Read in the order of the lists.
"""
