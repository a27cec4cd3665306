"""The track "build a client", which covers the rules that writers, readers and recoverers of a
ledger share.

    skeleton          the initial contents of the learner's file, with the contract of each part
    api, cluster      imported by the skeleton; for requests to individual bookies and versioned
                      metadata
    contract          the lines of the contracts of all steps
    adapter           replaces labkit's client with the learner's on the nodes that a trial names
    runs              small clusters with faults, and storms from seeds
    trials            code shared by the steps: runs that must succeed, every message order, costs
    track             the steps in order
    steps/            the seven steps
    generated/        generated cases for the steps, and the clusters in which they run
    ledgers           imported in step 7; provides ids and stores metadata of new ledgers
    program           runs the learner's program over a client's connections, simulated or live
    program_runs      runs that program in small simulated clusters
    process           runs the program as a process, for `labkit client`
    running           controls such a process: reads its output, sends SIGSTOP, waits for its exit
    live_trial        tests step 7 in a live cluster, with SIGKILL, a takeover and other readers
    solution          a client that passes every step; used only by tests and the solutions notebook

The learner's client does not see labkit's internals. All other nodes use labkit's own client, which
reads back the data that the learner's client has stored.

Read the modules in the order of this list.
"""
