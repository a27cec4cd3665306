"""The end of every run: all faults are repaired, and everything is read once more.

    final_reads    reads every entry from every bookie that should have it, and reads all messages
    trimming       records the ledgers that topics have trimmed

Because the epilogue reads everything, the checks need only the trace. Start with `final_reads`.
"""
