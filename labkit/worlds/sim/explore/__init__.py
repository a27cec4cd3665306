"""Exploration: looks for mistakes in more scenarios than a person would write by hand.

Scenarios are drawn, run, judged by `labkit.system.check`, and shrunk:

    lots.py             draws values from a seed
    storm.py            faults drawn from a seed, added to a scenario
    situations.py       faults together with the steps that they affect
    lost_bookies.py     bookies that stay away until their copies are made again
    bad_machines.py     replaced disks, failing reads, disks full at a sync, wrong clocks
    formatted_bookies.py  bookies that an operator empties after they were fenced
    other_clients.py    deferred sync, explicit LAC, long polls, racks
    more_steps.py       owners of topics without brokers, and autorecovery disabled for a time
    other_settings.py   other settings of bookies, writers and autorecovery
    busy_disks.py       crashes while disks work: flushes, full journals, compactions
    drawn.py            whole scenarios drawn from a seed
    consumers.py        subscriptions of all types, whose consumers come and go
    keys.py             keys that consumers share who come and go during reads
    unloads.py          topics that are unloaded, and again before that is done
    topic_upkeep.py     topics that trim ledgers, and store cursors in small ones
    topic_repairs.py    autorecovery, which fences brokers when a bookie is lost
    drawn_topic.py      the same with brokers: topics change owners while producers send
    search.py           many scenarios in several processes, until a promise breaks
    trial.py            runs a scenario until a promise breaks
    shrink.py           makes a scenario that breaks a promise as small as possible
    counterexamples/    the smallest known scenario that breaks the promise of each variant
    progress.py         the progress of a search, in one line

    found = search(range(5000), variant="ack after one bookie")
    print(shrink(found.first.scenario, found.first.promise))

A finding of `EveryRunEnds` has no trace, so `shrink` refuses it.

`labkit search` (command.py) is this search as a command; `tools/search` searches for hours.

Or every order of a small scenario's messages, instead of a sample:

    fingerprint.py  a node's memory as one value
    learned.py      what each node does with each message: a table
    steered.py      a world that follows a given order, and records what each node does
    mishaps.py      the crashes and losses that all orders are tried with
    every_order.py  finds all states of the world by that table, and judges each

A search that finds nothing proves nothing; `every_order` proves promises for small scenarios. Both
depend on the rule of `labkit.worlds.sim`: a run is a value, and its random decisions are a dictionary.

BookKeeper has nothing like this: its tests inject single failures by hand, and its TLA+
specification is checked separately from its code.

Read in the order of the lists.
"""
