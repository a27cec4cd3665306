"""Judges students' answers to the exercises without trusting the students' code.

Four processes are involved. The names in this diagram are used throughout the package:

    main  ── starts one per submission ──>  judge  ── starts ──>  sandbox
                                              │ forks one            ^
                                              v per exercise         │ calls, as JSON in pipes
                                            trial  ──────────────────┘

    main      reads the arguments and writes the reports, but parses nothing that a student wrote
    judge     reads the submission's files, and limits the trial and the sandbox (`processes`,
              `grade`)
    trial     a copy of the judge that runs the same trial as `check` and reaches the verdict
    sandbox   runs the submission's code, without network access and with limits on time, memory,
              processes and files (`isolation/submission_process`)

The submission's code can therefore return wrong values or no values, but it cannot replace anything
that affects how the trial judges these values.

    values       which values can be sent through the pipe, and how they are encoded
    isolation/   the process that runs a submission, its limits, and the pipe to the process
    slices       finds those statements of a notebook that its answers need
    frames       tables sent to a Spark job, and the job's results
    submissions  finds and reads students' files, within limits
    steps        grades `mybookie.py` and `myclient.py`, with a result for each step
    grade        grades one submission, with a result for each exercise
    processes    runs a judge for each submission
    on_spark     runs the judges in Spark tasks instead
    results      the result of an answer, with strings that are short enough for any report
    unfinished   keeps the results of an interrupted run
    records      predictions and hints that students saved and handed in
    reports/     the table, pages, files and gradebook about a class
    class_list   the students, their ids, and when they handed in
    blocked_answers  labkit's own answers, which a submission must not call
    variants     derives a lesson's parameters and the seed of its generated cases from a seed
    nbgrader_cells, handout   the notebooks that a teacher hands out
    arguments, command   `labkit grade` and `labkit handout`

The steps of the workshop are an exception, because their trials also run in the sandbox (see
`steps`).

A Spark job runs in the sandbox, in a Spark session of its own. It receives tables and returns rows
or files. Only functions and the values listed in `values` can be sent through the pipe.

Grading does not prove that a student wrote the answer. An object that labkit itself defines is
rejected, as is a function that calls labkit's own answer. A copy of labkit's code is not detected.

Read `isolation/submission_process.py` and `grade` first.
"""
