"""Generates random scenarios from a seed.

    random_scenarios         complete scenarios; `random_topic_scenarios`: scenarios with brokers
    variations               a table of variations, and the share of scenarios in which each occurs
    storm                    adds faults to a scenario
    scenario_random          draws values from a seed, and chooses nodes and events of a cluster

The following modules contain the functions listed in the table of variations:

    fault_recipes            faults together with the steps that they affect
    lost_bookies             bookies that stay down, or come back empty
    busy_disks               crashes during a flush, a journal rollover or a compaction
    bad_machines             replaced disks, failing reads, disks full at a sync, wrong clocks
    other_clients            clients that use less common features, topic owners without brokers
    other_settings           other settings of storage, writers, autorecovery and brokers
    consumers                consumers of topics, which disconnect and may share keys
    topic_faults             takeovers, repairs and unloading of topics

A seed always generates the same scenario. Start with `variations` and `storm`.
"""
