"""The track "build a bookie", which covers the write path of an add and recovery after a crash.

    skeleton       the initial contents of the learner's file, with the contract of each part
    track          the steps in order
    steps/         the eight steps
    process        the learner's store as a process, started by `labkit bookie --store mybookie.py`
    live_trial     tests step 8 with SIGKILL and a restart, and examines the files on disk
    store          the learner's parts as labkit sees them, and a store built with them
    common_trials  tests with crashes, message orders and storms, which are the same for every step
    trial_disks    disks for the trials of single parts, which record every access or fail
    solution       a bookie that passes every step; used only by tests and the solutions notebook

Each part is first tested on its own with hundreds of generated cases, and then in a store whose
other parts are labkit's own. The cost of a part is the number of operations that it performs on the
simulated disk.

Read the modules in the order of this list.
"""
