"""Tries every order in which the messages of a small scenario can arrive.

    every_order        finds all states of the world, and checks each state
    transition_table   how each node reacts to each message
    directed_world     a world that follows a given order and fills in the table
    fingerprint        represents a node's memory as a single value
    injected_failures  the crashes and message losses that are combined with every order

For a small scenario, this proves that no order breaks a promise. Start with `every_order` and
`transition_table`.
"""
