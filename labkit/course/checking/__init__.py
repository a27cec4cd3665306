"""Judges a learner's answer and shows the verdict.

    exercise               an exercise with its name, three hints, and a trial that tests an answer
    refused                the exception for a wrong answer
    annotations            compares values with type annotations
    check                  runs the trial on an answer and returns a card
    card                   the feedback that a learner sees, as text and HTML
    cases                  tests an answer with generated cases, and shows the smallest failing one
    plain_values           converts NumPy numbers in an answer to Python's own
    generated_cases        generates the cases from a seed, and shrinks a failing one
    forked_check           runs a trial in a forked copy of the process that can be killed
    progress               shows how long a check has been running if it takes over a second
    hints_and_predictions  `hint`, `predict` and `compare`, which keep their state in the kernel
    record                 saves predictions and hints to a file if the learner agrees
    parameters             checks that the parameters of a lesson are in range

No module here depends on a particular lesson. Read `exercise` and `check` first.
"""
