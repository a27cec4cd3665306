"""Lessons: notebooks written once, exercises that run in the real code, and what answers them.

    source/NN_name.py  a lesson, in percent format; both of its notebooks are made from it
    build              source -> notebooks/NN-name.ipynb and notebooks/solutions/NN-name.ipynb
    hide_outputs       folds what the learner's notebook asks about
    notebook_cluster   a notebook's start cell, run again, ends the cluster that it started
    slides             which cells are a talk

A learner meets only the names below.  An answer is never judged alone: the trial puts it into
the place of labkit's own function, runs the real code with it, at every crash point where that
fits, and a refusal shows the smallest case in which the rule broke.

How a lesson is added:
  1. `labkit/course/exercises/<lesson>.py`: a trial for each exercise, the learner's part as small
     as one decision (see `labkit.course.checking.exercise`).
  2. `source/NN_name.py`: cells begin with `# %%` or `# %% [markdown]` (its text as comments), with
     `tags=["..."]` after it where needed; `build` says what the tags mean and how the two
     versions differ.
  3. `python -m labkit.course.lessons.build NN`, and look at both notebooks.
  4. `tests/course/lessons/test_<lesson>.py`: for each exercise at least three typical wrong
     answers, each refused for its own reason; and in `tests/course/lessons/wrong_*.py` at least
     eight that are right nearly always.  `tests/notebooks/test_lesson_runs.py` runs the notebooks
     and compares what they say; it needs three sets of parameters in its table `PARAMETERS`, and
     `labkit.course.checking.parameters` the ranges of all.

Every lesson has one shape: the question as its title; at the end you can; the rule; a picture;
predict; do; check; what the real system does; questions with folded answers.

Read `build` and `source/01_entry.py` first.
"""

from labkit.course.checking.check import check
from labkit.course.checking.hints_and_predictions import compare, hint, predict
from labkit.course.checking.parameters import parameters
from labkit.course.checking.record import record
from labkit.course.lessons.notebook_cluster import start

__all__ = ["check", "compare", "hint", "parameters", "predict", "record", "start"]
