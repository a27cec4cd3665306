"""The connection from a client to one bookie, and the two wire protocols.

    per_channel_bookie_client  a connection, its pending requests and their timeouts
    protocol_v2, protocol_v3   BookKeeper's two wire protocols
    bookie_client              one connection for each bookie

Read `per_channel_bookie_client` and `protocol_v2` first.
"""
