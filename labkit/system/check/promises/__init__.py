"""The promises: each class is a check, and the first paragraph of its docstring is the promise.

    durability, writing, fencing, deletion, reading   entries and ledgers
    callers, learning                                 responses to callers and readers
    repair, outage, marks, health                     lost bookies, metadata store outages, errors
    chain, messages, deliveries, unloading            topics, their producers and consumers
    specification                                     invariants of the TLA+ specification

Read `durability` first.
"""
