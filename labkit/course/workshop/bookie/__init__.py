"""Build a bookie: the parts between an add and its answer, and back after a crash.

    skeleton        what the learner's file begins as: the contract of each part
    track           the steps in their order
    steps/          the seven steps
    process         the learner's store as a process: `labkit bookie --store mybookie.py`
    served          what step 7 tries: SIGKILL, a restart, and the files that are left
    store           the learner's parts as labkit sees them, and labkit's store with them
    inside          crashes, orders and storms, the same for every step
    solution        passes every step; only tests and the solutions notebook use it

A part is tried by itself first, on hundreds of drawn cases, then in labkit's own store with
labkit's parts around it.  What a part costs is counted on the simulated disk.

Read in the order of the list.
"""
