"""Carries out an administrator's requests: creates, grows, deletes and inspects topics.

    creation     creates, grows and inspects topics
    deletion     deletes topics
    partitions   makes partitioned topics, and adds partitions
    topic_stats  what an administrator sees of a topic

A refused operation changes nothing, and one that a crash interrupted can be repeated.

Read `creation` and `deletion` first.
"""
