"""Provides the functions that learners call in a notebook, and builds the notebooks.

    build              notebooks/source/NN_name.py, a lesson in percent format
                       -> notebooks/NN-name.ipynb and notebooks/solutions/NN-name.ipynb
    hide_outputs       folds outputs that reveal the result of a prediction
    opening            moves the first picture of a lesson up, and folds the code above the picture
    notebook_cluster   starts a notebook's cluster, and stops any cluster that the notebook started
                       earlier
    slides             assigns each cell its slide type, so that a lesson can be shown as a talk

A lesson imports all of labkit's names from this package; `__init__.pyi` lists these names. Code
that learners do not have to read is put into functions in `labkit.course.runs`, whose names say
what they show or measure.

An exercise never judges the learner's function in isolation. Instead, its trial puts the function
in place of labkit's own and runs the real code, where possible with a crash at every disk
operation. The rejection message shows the smallest case that breaks a rule.

To add a lesson:
  1. Write `labkit/course/exercises/<lesson>.py`, with a trial for each exercise. The learner's
     function should be as small as one decision (see `labkit.course.checking.exercise`).
  2. Write `notebooks/source/NN_name.py`, with at most sixty lines of code besides the code that the
     learner writes, and add the names that the lesson uses to `__init__.pyi`. Cells start with
     `# %%` or `# %% [markdown]` (with the text as comments), followed by `tags=["..."]` if needed.
     `build` explains the tags and the two versions.
  3. Explain the likely wrong predictions in `labkit/course/predictions/lesson_NN.py`.
  4. Run `python -m labkit.course.lessons.build NN`, and look at both notebooks.
  5. Write `tests/course/lessons/test_<lesson>.py`, with at least three typical wrong answers per
     exercise, each of which is refused for a different reason, and add at least eight answers that
     are almost right to `tests/course/lessons/wrong_*.py`. `tests/notebooks/test_lesson_runs.py`
     runs the notebooks and compares their outputs. Add three sets of parameters to its table
     `PARAMETERS`, and add the ranges of all parameters to `labkit.course.checking.parameters`.

All lessons have the same structure: a question as the title; a picture; what you will be able to do
at the end; the rule; predictions; exercises; what the real system does; questions with folded
answers.

Read `build` and `notebooks/source/01_entry.py` first.
"""

from labkit.lazy_names import names_of

__getattr__, __dir__ = names_of(__name__)
