"""Admin operations: create, grow, delete and inspect topics.

    partitions   creates topics and partitioned topics, and adds partitions
    deletion     deletes topics
    topic_stats  topic statistics

A rejected operation changes nothing, and an operation interrupted by a crash can be repeated.

Read `partitions` and `deletion` first.
"""
