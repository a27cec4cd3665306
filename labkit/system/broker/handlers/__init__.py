"""Handlers for client commands.

    lookup           partition counts and topic lookup
    producers        PRODUCER and SEND: stores messages, sends receipts
    consumers        SUBSCRIBE, FLOW, ACK and related commands
    schema_requests  reads and registers schemas

Handlers do not store anything themselves; they call the topic. Read `producers` and `consumers`
first.
"""
