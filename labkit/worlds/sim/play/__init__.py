"""Play a run by hand: choose which message arrives next, which one is lost, and who loses power.

    played           a run up to the last move: what has happened, what is in flight, what is broken
    played_world     a world that makes given moves and then stops
    message_words    what a message in flight says, in words
    late_syncs       finds out when a record was really synced
    lost_copies      finds a copy that a bookie has acknowledged and lost
    play_curve       finds the move after which a broken promise became inevitable

A move is the delivery of a message, such as `deliver w>b0 2` (the third message from w to b0), or a
decision that `labkit.worlds.sim.machine.decisions` describes: `lose w>b0 2`, `copy w>b0 2`,
`crash b0 3` or `wait 7`. Together, the moves are the decisions of a scenario in which the order of
messages is chosen (`labkit.worlds.sim.chosen_order`), so every game can be repeated, shrunk and
sent as a link.
"""
