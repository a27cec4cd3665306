"""The cluster's metadata: a tree of small versioned nodes, in BookKeeper's layout.

    /ledgers/LAYOUT                  the ledger manager, which determines the paths of ledgers
    /ledgers/INSTANCEID              identifies this cluster
    /ledgers/available/<bookie id>   ephemeral: this bookie is running and writable
    /ledgers/available/readonly/<bookie id>   ephemeral: this bookie is running and read-only
    /ledgers/cookies/<bookie id>     the directories that belong to this bookie
    /ledgers/idgen/ID-               ephemeral, sequential: the source of new ledger ids
    /ledgers/idgen-long/HOB-<high bits>/ID-   the same for ids from 4294967296 on
    /ledgers/00/0000/L0007           the metadata of ledger 7, updated by compare-and-set
    /ledgers/underreplication/       nodes of `labkit.system.autorecovery`
    /bookies                         the rack of each bookie, written by Pulsar's tools

`store` is the port to this tree. The live world implements it with ZooKeeper, and the simulated
world with a small store of its own. All other modules use only this port.

Invariants:
  - Every change to a node changes its version, and a client can update a ledger only if it knows
    the current version.
  - No ledger id is assigned twice.
  - A server counts as alive while its session exists. Its registrations expire with the session,
    and the server renews them in its next session.
  - A watch fires only once, and does not report what has changed. So the caller must read the node
    and set the watch again.
  - A cluster that is missing or has another instance id is not treated as an empty cluster. No
    ledger is deleted or marked as under-replicated just because it is not listed there.
  - A bookie starts only if it has all the directories with which it joined the cluster.

`/ledgers` is the default root. Not supported: etcd as a metadata store, access control lists.

Read in this order: `location`, `store`, `ledger_layout`, `cluster`, `ledger_ids`, `ledger_manager`,
`registration`, `watched_nodes`, `registered_bookies`, `cookie`, `json_node`, `racks`.
"""
