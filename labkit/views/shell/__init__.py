"""`labkit shell`: inspects the files of a stopped bookie, and queries or repairs a cluster.

    labkit shell --data FOLDER readjournal 1a1fd4b7370.txn
    labkit shell --journal DIR --ledgers DIR --json ledger 5
    labkit shell --zookeeper HOST:PORT ledgermetadata -l 5

The files and clusters can be labkit's or Apache BookKeeper's. Each verb is either a function that
reads the directories or a coroutine that uses a cluster client; notebooks can call verbs, too. A
verb returns one or more frozen dataclasses (`records`, `cluster/records`), which format themselves
as text. `verbs` is the table of verbs, from which `command` builds the parser.

    verbs of `bookkeeper shell`
      about files                   readjournal, lastmark, readlog, readlogmetadata, ledger,
                                    listfilesondisc, localconsistencycheck
      about a cluster               initnewcluster, metaformat, whatisinstanceid, listbookies,
                                    listledgers, ledgermetadata, readledger, deleteledger,
                                    simpletest
      about lost bookies            whoisauditor, autorecovery, triggeraudit, listunderreplicated,
                                    recover, decommissionbookie
    labkit's own verbs              listledgers and readledger without a cluster,
                                    rebuildindex, xray, messageid

Directories are opened read-only; only `rebuildindex` writes. A verb that destroys something in a
cluster asks for confirmation unless `--force` is given. With `--json`, verbs that list things
print one object per line (readjournal, readlog, ledger, readledger, xray, listledgers,
listbookies, listunderreplicated, recover, decommissionbookie), and the others print one document.
Each object contains the name of its dataclass as `kind`; bytes are in hexadecimal, and the bytes of
an entry are included only with `-m`.

Differences from BookKeeper's shell:
  - If a journal does not exist, labkit reports an error; BookKeeper creates it.
  - labkit recognizes an explicit LAC record; BookKeeper mistakes it for an entry.
  - If the end of a file is torn or damaged, labkit reports this and exits with code 1.
  - A range of empty index slots is printed as one line instead of one line per slot.
  - listledgers and readledger also work without a cluster, and then include entries that are only
    in the journal. With a cluster, readledger prints only confirmed entries and never recovers the
    ledger, whereas BookKeeper's readledger may recover it.
  - localconsistencycheck reads each entry completely, as the bookie would.
  - metaformat, recover and decommissionbookie fail while any of the bookies concerned is still
    registered.
  - simpletest reads back the entries that it wrote.
Ids are parsed as in BookKeeper: a file name is hexadecimal and a bare number is decimal, except
that readlogmetadata expects a hexadecimal number.

In BookKeeper: `bookie/BookieShell.java`, `tools/cli/commands/bookie/*.java`.

Read `verbs` and `records` first, then `options`, `command`, `folders`, `journal`, `entry_log`,
`ledgers`, `files`, `consistency`, `rebuild`, `xray`, `lineage`, and `cluster/`.
"""
