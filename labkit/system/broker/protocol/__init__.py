"""A client's connection to the broker, from bytes to commands.

    frames            encodes and decodes a command and the message that follows it
    connection_state  the states of a connection and the commands allowed in each
    connection        dispatches commands to handlers and batches the responses
    backpressure      stops reading from a client that has too many pending requests
    authentication    identities and their expiry
    authorization     the permissions of roles
    unsupported       responses to unsupported commands

This package does not depend on topics. Read `connection_state` and `connection` first.
"""
