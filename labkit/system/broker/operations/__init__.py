"""Carries out an administrator's requests: creates, grows, deletes and inspects topics.

    partitions   creates topics, with partitions or without, and adds partitions
    deletion     deletes topics
    topic_stats  what an administrator sees of a topic

A refused operation changes nothing, and one that a crash interrupted can be repeated.

Read `partitions` and `deletion` first.
"""
