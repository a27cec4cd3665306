"""Lets you play a run by hand: you choose which message arrives next, which message is lost, and
which bookie loses power.

    played           a run up to the last move: its events, messages in flight and broken promises
    played_world     a world that makes the given moves and then stops
    message_words    describes a message in flight in plain words
    late_syncs       finds out when a record was actually synced
    lost_copies      finds a copy that a bookie has acknowledged and lost
    play_curve       finds the move after which a broken promise became inevitable

A move is the delivery of a message, such as `deliver w>b0 2` (the third message from w to b0), or
one of the decisions `lose w>b0 2`, `copy w>b0 2`, `crash b0 3` and `wait 7`
(`labkit.worlds.sim.machine.decisions`). Together, the moves are the decisions of a scenario with a
chosen order of messages (`labkit.worlds.sim.chosen_order`). Every played run can therefore be
repeated, shrunk and shared as a link.
"""
