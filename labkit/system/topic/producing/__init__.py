"""Turns the messages of producers into entries of a topic.

    producer       labkit's own producer: batches, one entry for each
    publishing     messages of a broker's clients: many at once, receipts in order
    deduplication  which messages of a producer are already stored

Read `publishing` and `producer` first.
"""
