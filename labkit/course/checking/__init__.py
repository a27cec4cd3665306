"""How an answer is judged, and how the learner is told.

    exercise               an exercise: its name, its three hints, and the trial of an answer
    check                  an answer -> the trial -> a card
    card                   what a learner sees, as text and HTML
    cases, draw            hundreds of generated questions; the smallest wrong one is shown
    forked_check           runs a trial in a copy of the process, which can be stopped
    hints_and_predictions  `hint`, `predict`, `compare`: kept in the kernel's memory
    record                 and in a file of the learner's, if the learner says so
    parameters             the ranges of a lesson's parameters

Nothing here knows what a lesson is about.  Read `exercise` and `check` first.
"""
