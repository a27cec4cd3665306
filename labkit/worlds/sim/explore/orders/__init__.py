"""Every order in which the messages of a small scenario can arrive.

    every_order        finds all states of the world, and checks each of them
    transition_table   how each node reacts to each message
    directed_world     a world that follows a given order and fills in the table
    fingerprint        a node's memory as one value
    injected_failures  the crashes and message losses that are combined with every order

This proves promises for small scenarios. Start with `every_order` and `transition_table`.
"""
