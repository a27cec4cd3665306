"""Scenarios drawn at random from a seed.

    random_scenarios         a whole scenario; `random_topic_scenarios`: one with brokers
    variations               the table: what happens in which share of the scenarios
    storm                    adds faults to a scenario
    scenario_random          draws values from a seed, over the nodes and events of a cluster

The functions of that table:

    fault_recipes            faults together with the steps that they affect
    lost_bookies             bookies that stay away, or come back empty
    busy_disks               crashes in the middle of a flush, a new journal, a compaction
    bad_machines             replaced disks, failing reads, disks full at the sync, wrong clocks
    other_clients            clients that use rarer parts of the protocol, owners without brokers
    other_settings           other settings of storage, writers, autorecovery and brokers
    consumers                consumers of topics, which come and go, and may share keys
    topic_faults             takeovers, repairs and unloading of topics

The same seed always draws the same scenario.  Read `variations` and `storm` first.
"""
