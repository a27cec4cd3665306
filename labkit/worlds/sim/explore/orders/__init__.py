"""Every order in which the messages of a small scenario can arrive.

    every_order        finds all states of the world, and judges each
    transition_table   what each node does with each message
    directed_world     a world that follows a given order, and fills that table
    fingerprint        a node's memory as one value
    injected_failures  the crashes and losses that every order is tried with

This proves promises, for small scenarios.  Read `every_order` and `transition_table` first.
"""
