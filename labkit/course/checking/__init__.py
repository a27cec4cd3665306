"""Judges a learner's answer and shows the verdict.

    exercise               an exercise: its name, its three hints, and the trial of an answer
    check                  an answer -> the trial -> a card
    card                   what a learner sees, as text and HTML
    cases, draw            hundreds of generated questions; the smallest wrong one is shown
    forked_check           runs a trial in a copy of the process, which can be stopped
    hints_and_predictions  `hint`, `predict`, `compare`: kept in the kernel's memory
    record                 and in a file of the learner's, if the learner says so
    parameters             the ranges of a lesson's parameters

No module here depends on a particular lesson.  Read `exercise` and `check` first.
"""
