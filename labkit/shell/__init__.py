"""The contents of a bookie's directories, read without a running bookie; and a cluster's state.

    labkit shell --data FOLDER readjournal 1a1fd4b7370.txn
    labkit shell --journal DIR --ledgers DIR --json ledger 5
    labkit shell --zookeeper HOST:PORT ledgermetadata -l 5

Files and clusters may be labkit's or Apache BookKeeper's.  Each verb is a function over the
directories, or a coroutine over a client of the cluster, which a notebook can call as well; it
gives frozen dataclasses (`records`, `cluster_records`), one or a stream of them.  `text`,
`cluster_text` and `as_json` turn these into lines; `command` parses, calls and prints.

    verbs of `bookkeeper shell`
      about files                   readjournal, lastmark, readlog, readlogmetadata, ledger,
                                    listfilesondisc, localconsistencycheck
      about a cluster               initnewcluster, metaformat, whatisinstanceid, listbookies,
                                    listledgers, ledgermetadata, readledger, deleteledger,
                                    simpletest
      about lost bookies            whoisauditor, autorecovery, triggeraudit, listunderreplicated,
                                    recover, decommissionbookie
    of labkit                       listledgers and readledger from the disk alone, rebuildindex,
                                    xray; messageid of a cluster

Directories are opened to be read only; `rebuildindex` alone writes.  What destroys something in a
cluster asks first, but with `--force`.  With `--json` the verbs that walk through a file or a list
print one object a line (readjournal, readlog, ledger, readledger, xray, listledgers, listbookies,
listunderreplicated, recover, decommissionbookie), the others one document.  Each object names its
`kind`, the dataclass that it is; bytes are hexadecimal, and an entry's own come with `-m`.

Where this differs from BookKeeper's shell:
  - a journal that does not exist is an error (BookKeeper creates it);
  - an explicit LAC record is shown as such (BookKeeper takes it for an entry);
  - a file that does not end as a writer ends it is reported, with exit code 1;
  - a missing slot of an index is one line a run, not one line a slot;
  - listledgers and readledger need no cluster, and then tell also what only the journal has; with
    one, readledger tells what is confirmed and recovers nothing (BookKeeper's may recover);
  - localconsistencycheck reads each entry whole, as the bookie would;
  - metaformat, recover and decommissionbookie refuse while the bookies concerned are registered;
  - simpletest reads again what it wrote.
The meaning of ids is BookKeeper's: a file's name is hexadecimal, a bare number is decimal, but for
readlogmetadata, which takes it as hexadecimal.

In BookKeeper: `bookie/BookieShell.java`, `tools/cli/commands/bookie/*.java`.

Read in this order: `records`, `folders`, `journal`, `entry_log`, `ledgers`, `files`,
`consistency`, `rebuild`, `xray`, `text`, `as_json`, `arguments`, `command`; then `cluster_records`,
`cluster`, `repair`, `lineage`, `cluster_text`, `cluster_arguments`, `cluster_command`.
"""
