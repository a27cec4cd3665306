"""labkit: Apache BookKeeper and Pulsar's storage, small and real, taught by running it.

Read the packages in this order; it is the path of an entry.

    words
      model/        what travels: entries, ledger metadata, message ids, wire frames, errors
      trace/        what is remembered: flat events with causes
    the path of an entry, top to bottom
      topic/        messages -> batches -> entries of a chain of ledgers
      client/       entry -> write set -> acknowledgements -> confirmed
      bookie/       one node: add and read requests, group commit, fencing
      storage/      one disk: memtable and journal -> entry log -> index; LastLogMark, replay
    who keeps the cluster
      metadata/     ledger metadata, ids, registration, cookies: the znode tree
    what makes it run
      live/         real files, TCP, ZooKeeper, a local cluster of processes
      sim/          a disk that forgets what was not synced, the crash map, planted mistakes
    what looks at it
      check/        the promises of the system, each a named check over a trace
      shell/        what lies in a bookie's files, without a running bookie
      widgets/      pictures drawn from the trace
      spark/        streams of message ids as tables
    what teaches with all of it
      lessons/      the notebooks' sources, exercises that run in the real code, their checks
"""

__version__ = "0.1.0"
