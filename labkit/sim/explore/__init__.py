"""Exploration: where a mistake might be, among more scenarios than anybody would write.

Scenarios are drawn, run, judged by `labkit.check`, and made small:

    storm.py            faults drawn from a seed, put into a scenario
    drawn.py            whole scenarios drawn from a seed
    drawn_topic.py      the same with brokers: topics change their owners under producers
    search.py           many scenarios in several processes, until a promise breaks
    trial.py            whether a promise breaks in a scenario: a run that ends when it does
    shrink.py           a scenario that breaks a promise, made as small as it gets
    long_search.py      hours of seeds, with a state that outlives a stop: `labkit search`
    counterexamples/    for each variant the smallest scenario known that breaks its promise
    progress.py         how a search gets on, in one line

    found = search(range(5000), variant="ack after one bookie")
    print(shrink(found.first.scenario, found.first.promise))

Or all orders of the messages of a small scenario, not a sample:

    fingerprint.py  what a program has in memory, as one value
    learned.py      what each node does with each message: a table
    steered.py      a world that goes where it is steered, and notes what each node does
    mishaps.py      which crashes and losses all that is done again with
    every_order.py  all states of the world, by that table, and all that it comes to, judged

A search that finds nothing proves nothing; `every_order` proves something of small scenarios.  Both
rest on the rule of `labkit.sim`: a run is a value, and chance is a dictionary of named decisions.

BookKeeper has no such thing: its tests inject single failures by hand, and its TLA+ specification
is checked apart from its code.

Read in the order of the lists.
"""
