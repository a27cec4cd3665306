"""Grading: strangers' answers to the exercises, judged without trusting their code.

A submission runs in a sandbox: a process without network, whose time, memory, processes and files
are limited.  The verdict is reached outside the sandbox, by the trials that `check` uses, in a
separate process for each submission, because the main process parses nothing that a stranger wrote.
Where a trial calls the learner's function, the call crosses a pipe as JSON.  So the submission's
code can return wrong values or none, and nothing that it replaces can change what the trial makes
of them.

    values       what crosses the pipe, and what does not
    isolation/   the process of one submission, its limits, and the pipe to it
    slices       which statements of a notebook its answers need
    frames       tables for a Spark job, and what comes back
    submissions  what students handed in, found and read with limits
    grade        one submission -> a result for each exercise
    processes    the process of each submission
    results      how an answer went, in texts of limited length
    unfinished   results of an interrupted run
    records      predictions and hints that students saved and handed in
    report       results -> a table, Parquet, a page for each student, a notebook for the class
    blocked_answers  labkit's own answers, which a submission cannot call
    variants     a seed -> a lesson's parameters and generated cases
    nbgrader_cells, handout   the learner's notebooks as a teacher gives them out
    arguments, command   `labkit grade` and `labkit handout`

A Spark job runs in the sandbox, in a separate Spark: tables cross to it, and rows or files come
back.  What cannot cross: objects other than functions and the values that `values` lists.

What this does not prove: that a student wrote the answer.  An object that labkit itself defines
does not count, nor does a function that calls labkit's own answer.  A copy of labkit's code does.

Read `isolation/inside.py` and `grade` first.
"""
