"""A client's connection to the broker, from bytes to commands.

    frames            bytes <-> a command and the message behind it
    connection_state  the states of a connection, and the commands allowed in each
    connection        passes each command to its handler; writes the answers of a turn together
    backpressure      stops reading from a client whose requests pile up
    authentication    who a client is, and how long that is valid
    authorization     what a role may do
    refusals          the answers to commands that this broker does not serve

This package does not depend on topics.  Read `connection_state` and `connection` first.
"""
