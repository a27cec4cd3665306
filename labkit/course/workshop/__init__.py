"""The workshop: a learner builds a bookie and a client, each in a file that grows step by step.

    from labkit.course.workshop import begin, check, step
    begin("bookie")             makes mybookie.py, unless it is there
    step("bookie", 1)           what step 1 asks for
    check("bookie", 1)          tries mybookie.py, as it is on disk now; "client": myclient.py

`begin`, or the first check, copies the skeleton into the learner's folder; nothing overwrites it.
After each step what is written runs inside labkit, whose own parts stand in for the steps to come:
every crash of a bookie's disk, every order of a few messages, hundreds of seeds of the simulated
cluster, and at the end processes of a live cluster.  A refused step shows a run that can be stepped
through.  Notebooks 16 and 17 lead through the two tracks.

    step            what a step and a track are, as values
    learner         the learner's parts as labkit calls them; their first error is kept
    files           the learner's file: made once, loaded at each check, errors by its lines
    generated_cases  hundreds of generated cases of a part; the smallest wrong one is shown
    worlds          the simulated cluster with the learner's parts
    processes       trials that need processes, and what is said where there are none
    check           the trials of a step, and the card
    command         `labkit workshop`
    bookie/         build a bookie, in which `skeleton` is what the learner's file begins as
    client/         build a client, in the same shape

A track has a module `track` with the value `TRACK`, a `skeleton` and a `solution`, which only tests
and the solutions notebook use.

Read in this order: `step`, `learner`, `files`, `check`, `generated_cases`, `worlds`, `processes`,
then a track.
"""

from labkit.course.workshop.check import begin, check, step

__all__ = ["begin", "check", "step"]
