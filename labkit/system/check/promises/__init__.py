"""The promises: each class is a check, and the first sentence of its docstring is the promise.

    durability, copies, writing, fencing, deletion, reading   entries and ledgers
    callers, learning             what callers and readers are told
    repair, absence, outage, marks, health   lost bookies and silences of the metadata store
    chain, deliveries, unloading  topics and their consumers
    specification, specification_end   the invariants of the public TLA+ specification

Read `durability` first.
"""
