"""What the cluster knows of itself: a tree of small versioned nodes, BookKeeper's own.

    /ledgers/LAYOUT                  which ledger manager lays out the ledgers' nodes
    /ledgers/INSTANCEID              tells this cluster from any other
    /ledgers/available/<bookie id>   ephemeral: this bookie lives and takes writes
    /ledgers/cookies/<bookie id>     which disks belong to that bookie
    /ledgers/idgen/ID-               ephemeral, sequential: where new ledger ids come from
    /ledgers/00/0000/L0007           the metadata of ledger 7, changed by compare-and-set

`store` is the port to that tree: ZooKeeper in the live world.  Everything else here is written
against the port.

Not here yet: flat and long-hierarchical layouts, metadata versions 1 and 2.

Read in this order: `store`, `cluster`, `ledger_manager`, `registration`, `cookie`.
"""
