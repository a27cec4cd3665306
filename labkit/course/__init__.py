"""The course: lessons, exercises that run a learner's code inside the system, and grading.

    lessons/      the notebook sources, and the program that builds the notebooks
    exercises/    the exercises of each lesson
    checking/     judges an answer with `check`, shows cards and hints, and generates cases
    predictions/  explains the likely wrong predictions of each lesson
    runs/         simulated runs shared by lessons and exercises
    workshop/     tracks in which learners build their own bookie and client
    grading/      grades a class's notebooks, each in a sandbox
    inventory/    questions about misconceptions, asked before and after the course

Answers are not compared with stored solutions. Instead, the real system runs with the learner's
function in place of labkit's own.

Read `checking/exercise.py` and `exercises/entry.py` first.
"""
