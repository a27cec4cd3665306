"""Build a client: what a ledger's writers, readers and recoverers must agree on.

    skeleton        what the learner's file begins as: the contract of each part
    api, cluster    what it imports: requests to single bookies, metadata with versions
    inside          the learner's client in labkit's place, on the nodes that a trial names
    runs            small clusters with faults, and storms by their seeds
    trials          what the steps share: runs that must end well, every order, counts
    track           the steps in their order
    steps/          the seven steps; `reading` has the cases of step 3
    ledgers         step 7 imports it: ids and metadata of new ledgers
    program         the learner's program over a client's connections, in either world
    program_runs    that program in small simulated clusters
    process         the program as a process: `labkit client`
    running         such a process seen from outside: its lines, SIGSTOP, its end
    served          what step 7 tries in a live cluster: SIGKILL, a take-over, other readers
    solution        passes every step; only tests and the solutions notebook use it

The learner's client never meets labkit's internals.  The nodes that it does not play use labkit's
own client, which reads back what it stored.

Read in the order of the list.
"""
