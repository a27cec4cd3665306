"""Stores the messages of producers as entries of a topic.

    producer       labkit's own producer, which stores each batch as one entry
    publishing     stores the messages of a broker's clients, and sends receipts in order
    deduplication  tracks which messages of each producer are already stored

Read `publishing` and `producer` first.
"""
