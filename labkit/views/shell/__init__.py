"""The contents of a bookie's directories, read without a running bookie; and a cluster's state.

    labkit shell --data FOLDER readjournal 1a1fd4b7370.txn
    labkit shell --journal DIR --ledgers DIR --json ledger 5
    labkit shell --zookeeper HOST:PORT ledgermetadata -l 5

Files and clusters may be labkit's or Apache BookKeeper's.  Each verb is a function over the
directories, or a coroutine over a client of the cluster, and a notebook can call it too; it returns
one frozen dataclass or a stream of them (`records`, `cluster/records`), which have their own text.
`verbs` is the table of verbs; `command` parses, calls and prints by it.

    verbs of `bookkeeper shell`
      about files                   readjournal, lastmark, readlog, readlogmetadata, ledger,
                                    listfilesondisc, localconsistencycheck
      about a cluster               initnewcluster, metaformat, whatisinstanceid, listbookies,
                                    listledgers, ledgermetadata, readledger, deleteledger,
                                    simpletest
      about lost bookies            whoisauditor, autorecovery, triggeraudit, listunderreplicated,
                                    recover, decommissionbookie
    labkit's own verbs              listledgers and readledger from the disk alone,
                                    rebuildindex, xray; messageid of a cluster

Directories are opened read-only; only `rebuildindex` writes.  A verb that destroys something in a
cluster asks first, except with `--force`.  With `--json` the verbs that walk through a file or a
list print one object on each line (readjournal, readlog, ledger, readledger, xray, listledgers,
listbookies, listunderreplicated, recover, decommissionbookie), the others one document.  Each
object names its dataclass as `kind`; bytes are hexadecimal, and an entry's own bytes are included
with `-m`.

Where this differs from BookKeeper's shell:
  - a journal that does not exist is an error (BookKeeper creates it);
  - an explicit LAC record is shown as such (BookKeeper takes it for an entry);
  - a file whose end is not one that a writer leaves is reported, with exit code 1;
  - a run of missing slots of an index is one line, not one line for each slot;
  - listledgers and readledger work without a cluster, and then also show entries that are only in
    the journal; with a cluster, readledger shows confirmed entries and recovers nothing
    (BookKeeper's may recover);
  - localconsistencycheck reads each entry completely, as the bookie would;
  - metaformat, recover and decommissionbookie refuse while the bookies concerned are registered;
  - simpletest reads back the entries that it wrote.
Ids are read as in BookKeeper: a file's name is hexadecimal, a bare number is decimal, except for
readlogmetadata, which takes it as hexadecimal.

In BookKeeper: `bookie/BookieShell.java`, `tools/cli/commands/bookie/*.java`.

Read `verbs` and `records` first, then `command`, `folders`, `journal`, `entry_log`, `ledgers`,
`files`, `consistency`, `rebuild`, `xray`, `lineage`, and `cluster/`.
"""

ZOOKEEPER_PLACE = "host:port of ZooKeeper, or zk+null://host:port/ledgers"
"""What an option `--zookeeper` expects; it stands here because `labkit` starts without the rest."""
