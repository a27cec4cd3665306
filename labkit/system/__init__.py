"""The storage system under Apache Pulsar, from a message down to the disk.

Read the packages in the order of an entry's path:

    broker/        speaks Pulsar's protocol: stores clients' messages, and delivers them
    topic/         messages -> batches -> entries in a chain of ledgers; cursors and ownership
    client/        writes each entry to a quorum of bookies, reads entries, recovers ledgers
    bookie/        one storage server: handles add and read requests, group commit and fencing
    storage/       one disk: memtable and journal, then entry log and index; replay after a crash

These packages support all of them:

    model/         entries, ids, ledger metadata, wire formats and errors
    metadata/      the znode tree: ledger metadata, bookie registrations, cookies
    autorecovery/  finds under-replicated ledgers, and recreates their missing copies
    node/          assembles a bookie or a broker from its components
    trace/         records events and their causes
    check/         checks a trace: each promise of the system is a named check

This code never opens a socket or a file, and never reads a clock. Instead, it calls interfaces
(ports). `labkit.worlds` implements each port twice: for live processes, and for the simulation.
This code does not import the views or the course.

Read `storage/journal.py` and `client/writer.py` first.
"""
