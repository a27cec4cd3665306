"""For each prediction, lists the likely wrong values and explains why they are wrong.

`compare` shows these explanations. They are stored here rather than in the notebooks, where a
learner would read them before making a prediction.

    prediction   a prediction's likely wrong values, and the explanation of any other wrong value

Each of the other modules defines PREDICTIONS, the predictions of one lesson by name:

    lesson_01    the bytes of an entry
    lesson_02    the journal
    lesson_03    memtable, entry log and index
    lesson_04    LastLogMark
    lesson_05    ensembles, write sets and quorums
    lesson_06    LastAddConfirmed
    lesson_07    ensemble changes
    lesson_08    fencing and recovery
    lesson_09    the auditor and re-replication
    lesson_10    garbage collection and compaction
    lesson_11    topics and MessageIDs
    lesson_12    streams of MessageIDs
    lesson_13    streaming queries
    lesson_14    search for a planted bug
    lesson_15    programs that use ledgers
    lesson_16    build a bookie
    lesson_17    build a client
"""
