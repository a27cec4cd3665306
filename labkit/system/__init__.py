"""The storage system under Apache Pulsar, from a message down to the disk.

Read the packages in the order of an entry's path:

    broker/        speaks Pulsar's protocol: a client's frames become entries, and entries frames
    topic/         messages -> batches -> entries in a chain of ledgers; cursors and ownership
    client/        writes each entry to a quorum of bookies, reads it, recovers ledgers
    bookie/        one storage server: answers add and read requests, syncs in groups, fences
    storage/       one disk: memtable and journal, then entry log and index; replay after a crash

These packages serve all of them:

    model/         what travels and is stored: entries, ids, ledger metadata, wire formats, errors
    metadata/      the znode tree: ledger metadata, registration of bookies, cookies
    autorecovery/  finds ledgers that lack copies, and replaces the copies
    node/          puts a bookie or a broker together
    trace/         records what happens as events with causes
    check/         judges a trace: each promise of the system is a named check

This code never opens a socket or a file, and it never reads a clock.  It calls interfaces (ports)
instead, and `labkit.worlds` implements each of them twice.  It does not import views or the course.

Read `storage/journal.py` and `client/writer.py` first.
"""
