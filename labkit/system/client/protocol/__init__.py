"""The connection from a client to one bookie, and the two wire protocols.

    per_channel_bookie_client  a channel: one connection, which is restored if lost, and its outbox
    protocol_v2, protocol_v3   BookKeeper's two wire protocols: pending requests and timeouts
    bookie_client              the connection pool, with the channels to all bookies

Read `per_channel_bookie_client` and `protocol_v2` first.
"""
