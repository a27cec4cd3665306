"""Scenarios drawn at random from a seed.

    scenario_random          draws values from a seed, over the nodes and events of a cluster
    random_scenarios         a whole scenario; `random_topic_scenarios`: one with brokers
    storm                    adds faults to a scenario
    fault_recipes            faults together with the steps that they affect
    lost_bookies, formatted_bookies, bad_machines, busy_disks
                             bookies that stay away, are emptied, fail rarely, fail in disk work
    other_clients, other_settings, more_steps
                             rarer ways of the protocol, other settings, owners without brokers
    consumers, keys, unloads, topic_upkeep, topic_repairs
                             what happens to topics: consumers that come and go, shared keys,
                             unloading, trimming, repairs of open ledgers

The same seed always draws the same scenario.  Read `random_scenarios` and `storm` first.
"""
