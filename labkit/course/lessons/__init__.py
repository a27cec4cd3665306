"""Lessons: notebooks written once, exercises that run in the real code, and what answers them.

    source/NN_name.py       the lesson, in percent format; both notebooks are made from it
    exercises/<lesson>.py   its exercises: hints, and a trial that puts the learner's object into
                            the real code
    build                   source -> notebooks/NN-name.ipynb and notebooks/solutions/NN-name.ipynb
    trial, one_bookie       what exercises and lessons share: every crash of a script, and a bookie
                            on a simulated disk
    cluster_trial           the same for a cluster: the learner's code in the simulated world
    znodes                  what a simulated cluster's metadata store holds
    timeline                a simulated run in the timeline, by itself or under a refused card
    timeline_messages       which message an event sent, to lose or delay it
    broken_runs             the same in the space-time diagram; a run as sentences
    broken_repairs          the same in the recovery progress
    ensemble_runs, recovery_runs, repair_trial   what the trials of lessons 07 to 09 run and judge
    ledger_race             lesson 10: a bookie collects while a client creates a ledger
    steps                   a step of a simulated workload that does what a lesson says
    uses/                   lesson 15: a write-ahead log, an offset store, a store of snapshots
    topic_world             a topic in a simulated cluster, and where its messages lie
    cursor_cases, retention_cases   what the trials of lesson 11 judge
    stream_trial            the same for jobs over streams: the learner's job in Spark
    stored_batches          the files that such a job stores, and what a crash leaves of them
    draw, cases, drawn/     hundreds of generated questions to each function, the smallest wrong one
                            shown
    check, apart            exercise and learner's object -> a card; in a copy that can be stopped
    hint, predict, compare  kept in the kernel's memory
    record                  and, if the learner says so, in a file of the learner's
    parameters              which values a lesson's parameters may have
    one_cluster             a notebook's start cell, run again, ends the cluster that it started
    fold                    the learner's notebook does not tell what it asks
    slides                  which cells are a talk

A learner meets only the names below.  An answer is never judged alone: the trial puts it into
the place of labkit's own function, runs the real code with it, at every crash point where that
fits, and a refusal shows the smallest case in which the rule broke.

How a lesson is added:
  1. `exercises/<lesson>.py`: a trial for each exercise (see `exercise` and `trial`), the learner's
     part as small as one decision.
  2. `source/NN_name.py`: cells begin with `# %%` or `# %% [markdown]` (its text as comments), with
     `tags=["..."]` after it where needed; `build` says what the tags mean and how the two
     versions differ.
  3. `python -m labkit.course.lessons.build NN`, and look at both notebooks.
  4. `tests/course/lessons/test_<lesson>.py`: for each exercise at least three typical wrong answers, each
     refused for its own reason; and in `tests/course/lessons/wrong_*.py` at least eight that are right
     nearly always.  That the notebooks run, say what they say and are open exactly
     where announced, `tests/notebooks/test_lessons.py` finds out by itself; it needs three sets of
     parameters in its table `PARAMETERS`, and `parameters.LESSONS` the ranges of all.

Every lesson has one shape: the question as its title; at the end you can; the rule; a picture;
predict; do; check; what the real system does; questions with folded answers.

Read in this order: `exercise`, `draw`, `cases`, `trial`, `cluster_trial`, `check`, `card`,
`memory`, `build`.
"""

from labkit.course.checking.check import check
from labkit.course.checking.hints_and_predictions import compare, hint, predict
from labkit.course.checking.parameters import parameters
from labkit.course.checking.record import record
from labkit.course.lessons.notebook_cluster import start

__all__ = ["check", "compare", "hint", "parameters", "predict", "record", "start"]
