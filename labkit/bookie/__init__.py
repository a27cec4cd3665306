"""One storage node: it takes entries and gives them back, and decides nothing else.

    frames of one receive -> requests
    add    master key right? ledger not fenced? -> memtable, then journal -> wait for the sync
    read   with the flag FENCE: fence first and wait for the sync, whatever the read says
           -> memtable, else index -> entry log -> answer
    sync   one write and one sync for all that came meanwhile; then all their answers, one write
           per connection (group commit)

No entry has a task or a future of its own: requests and answers go through in batches.

Invariants: no answer to an add, and none to a fencing read, leaves before the journal record that
it promises is durable.  "No such ledger" and "no such entry" are answered only when they are
certain; everything else that goes wrong is an I/O error.

A full disk is not a failed one.  A checkpoint that finds no space is tried again, and the bookie is
read-only meanwhile; any other failure of a checkpoint, and every failure of the journal, ends the
process, since nobody can tell what such a disk holds.

Not here yet: wire protocol version 3.

Read in this order: `node`, `commit`, `checkpoints`, `garbage_collection`, `disk_monitor`.
"""
