"""The workshop: learners build a bookie and a client, each in a file that grows step by step.

    from labkit.course.workshop import begin, check, hint, play, step
    begin("bookie")     creates mybookie.py unless it exists
    step("bookie", 1)   describes step 1
    hint("bookie", 1)   gives the next of three hints
    check("bookie", 1)  tests the current mybookie.py; for "client", myclient.py
    play("bookie")      lets the learner choose the order in which messages arrive
    overview("bookie")  shows which steps the learner has begun
    your_bookie()       returns a bookie's store with the learner's parts

`begin` or the first `check` copies the skeleton into the learner's folder unless the file already
exists. Learners write their code in the file, or in cells of lessons 02 to 04, where `check` saves
the code in the file. After each step, the parts written so far run inside labkit, which uses its
own parts for the later steps. The learner's parts are tested with a crash before every disk
operation, with every order of a few messages, with hundreds of seeds in the simulated cluster and,
in the last step, as processes in a live cluster. If a check rejects the step, the learner can step
through the failed run.

Notebooks 02 to 04 and 16 teach the first track, and notebooks 06 to 08 and 17 teach the second. The
steps of the second track extend the same classes, so learners write their code in the file rather
than in cells.

    tracks             defines tracks and their steps
    learner            calls the learner's parts and keeps their first error
    files              creates the learner's file, and loads it for each check
    definitions        copies what a notebook cell defines into the learner's file
    generated_cases    tests a part with generated cases, and shows the smallest failing one
    simulated_cluster  the simulated cluster with the learner's parts
    processes          trials that need processes, and the message shown if no process can be
                       started
    step_check         runs the trials of a step and returns a card
    working_parts      the parts that the learner has written
    playing            plays a scenario with the learner's parts, move by move
    command            `labkit workshop`
    bookie/            the track "build a bookie", in which the learner's file starts as a copy of
                       `skeleton`
    client/            the track "build a client", organized in the same way

Each track has a module `track` that defines `TRACK`, a `skeleton`, and a `solution` that is used
only by tests and the solutions notebook.

Read in this order: `tracks`, `learner`, `files`, `definitions`, `step_check`, `generated_cases`,
`simulated_cluster`, `working_parts`, `playing`, `processes`, and then one of the tracks.
"""

from labkit.lazy_names import names_of

__getattr__, __dir__ = names_of(__name__)
"""The names that learners use, each imported on first use: the processes that run a learner's
bookie or client import this package, too, and need none of them.
"""
