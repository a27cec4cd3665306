"""The cluster's metadata: a tree of small versioned nodes, laid out as BookKeeper does.

    /ledgers/LAYOUT                  which ledger manager lays out the ledgers' nodes
    /ledgers/INSTANCEID              identifies this cluster
    /ledgers/available/<bookie id>   ephemeral: this bookie lives and takes writes
    /ledgers/available/readonly/<bookie id>   ephemeral: this one lives and only reads
    /ledgers/cookies/<bookie id>     which disks belong to that bookie
    /ledgers/idgen/ID-               ephemeral, sequential: where new ledger ids come from
    /ledgers/idgen-long/HOB-<high bits>/ID-   the same for ids from 4294967296 on
    /ledgers/00/0000/L0007           the metadata of ledger 7, changed by compare-and-set
    /ledgers/underreplication/       what `labkit.system.autorecovery` keeps
    /bookies                         Pulsar's: which bookie stands in which rack

`store` is the port to that tree: ZooKeeper in the live world, a simulated one in the other.
Everything else here is written against the port.

Invariants:
  - a version changes with every change, and only a client that knows it may change a ledger;
  - no ledger id is given twice;
  - a server is alive while it has a session: its registrations end with it, and are made again in
    the next one;
  - a watch reports once that something has changed, never what: ask again, and watch again;
  - a missing cluster, or another one than before, is not an empty cluster: nothing is deleted
    or marked for what it does not list;
  - a bookie starts only with all the directories that it was known to have.

`/ledgers` is the default.  `place` says where a cluster's tree is: several clusters may share a
ZooKeeper, each below a path that the others do not use.

Left out: etcd as a metadata store, access control lists.

Read in this order: `place`, `store`, `ledger_layout`, `cluster`, `ledger_ids`, `ledger_manager`,
`registration`, `bookie_watch`, `cookie`, `racks`.
"""
