"""Handles the commands of a client.

    lookup           how many partitions a topic has, and which broker serves it
    producers        PRODUCER and SEND: messages in, receipts out
    consumers        SUBSCRIBE, FLOW, ACK and their like
    schema_requests  schemas, asked for and registered

A handler stores nothing itself: it calls the topic.  Read `producers` and `consumers` first.
"""
