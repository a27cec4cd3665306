"""Runs of brokers and topics.

    topic_world, one_broker, cursor_cases, retention_cases   lesson 11: topics, cursors, retention
    stream_trial, stored_batches   lessons 12 and 13: streaming jobs, and the files that these jobs
                                   store
    recorded_stream  lesson 12: a recorded run, and what its messages and its trace reveal
    live_flights     lesson 13: a topic in a real cluster, and the queries that read it

Read `topic_world` and `one_broker` first.
"""
