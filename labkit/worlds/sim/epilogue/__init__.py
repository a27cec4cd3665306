"""The end of every run: faults are repaired, and everything is read once more.

    final_reads    looks up every entry on every bookie that should have it
    topic_reading  reads every message of every topic
    trimming       notes the ledgers that topics have given up
    retry          asks again until the metadata store answers

So a check needs nothing but the trace.  Read `final_reads` first.
"""
